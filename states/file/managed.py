"""file.managed: a file with a content, an owner and a mode."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context, Distant
from catena.core.errors import CommandExecutionError, RenderError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import content, source
from catena.modules.file.change import make_folders
from catena.modules.shared import attributes
from catena.modules.shared.arguments import listed, split, truth
from catena.modules.shared.attributes import KEEP, Wanted
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run as run_command
from catena.modules.shared.locations import split_location
from catena.renderers.templates import ENGINES, render_file
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.ahead import staged
from catena.states.file.contents import given_contents, text_of_contents
from catena.states.file.kept import Writer, accumulated, keep, writer_of
from catena.states.file.options import ManagedOptions

_TEST_NOTE = "Note: No changes made, actual changes may\nbe different due to other states."
#: Arguments that promise a check; ignored as others are, they would promise it in vain.
_UNCHECKED = ("signature", "source_hash_sig")
#: The diff of a change that `show_changes: False` keeps back.
HIDDEN = "<show_changes=False>"


@dataclass(frozen=True)
class Order:
    """One file.managed: what to do with one path."""

    path: Path
    options: ManagedOptions
    wanted: Wanted
    test: bool
    #: Writes the content.
    write: Writer = content.write
    #: The content, where it is known already.
    known: Optional[bytes] = None


def _rendered(context: Context, order: Order, text: str, origin: str) -> str:
    options = order.options
    variables: Dict[str, Any] = {
        "source": origin,
        "name": str(order.path),
        "saltenv": options.saltenv or context.saltenv,
        "user": options.user,
        "group": options.group,
        "mode": order.wanted.mode,
        "attrs": options.attrs,
        "context": None,
        "accumulator": accumulated(context, str(order.path)),
        **(options.defaults or {}),
        **(options.context or {}),
    }
    return str(render_file(context, text, str(options.template), variables))


def find_source(context: Context, options: ManagedOptions) -> source.FileSource:
    """Return the source that an order names, the first that is there when it names several.

    Raises:
        CommandExecutionError: none is there.
    """
    base = source.FileSource(
        "",
        options.saltenv or context.saltenv,
        str(options.source_hash or ""),
        options.source_hash_name,
        truth(options.skip_verify) or (truth(options.use_etag) and not options.source_hash),
    )
    if isinstance(options.source, (list, tuple)):
        return source.first_of(context, list(options.source), base)
    return replace(base, location=str(options.source))


def new_content(context: Context, order: Order) -> Optional[bytes]:
    """Return the bytes that the file should have; None when only its attributes are managed.

    That is so without contents and source, and where the file has the hash of a distant source.

    Raises:
        SourceMissingError: the source is not there.
        CommandExecutionError: the source can't be had, or the text not be encoded.
        UsageError: the arguments make no sense.
        RenderError: the template fails.
    """
    if order.known is not None:
        return order.known
    options = order.options
    given = given_contents(context, options)
    if given is None and not options.has_source:
        return None
    if given is not None:
        text = text_of_contents(given, truth(options.contents_newline))
        origin = str(order.path)
    else:
        chosen = find_source(context, options)
        if not options.template and source.holds(context, chosen, order.path):
            return None
        found = source.fetch(context, chosen)
        if found is None:
            raise source.missing(context, chosen)
        if not options.template:
            return content.read(found)
        text, origin = content.decode(content.read(found)), chosen.location
    if options.template:
        text = _rendered(context, order, text, origin)
    if not options.encoding:
        return content.encode(text)
    try:
        return text.encode(options.encoding, options.encoding_errors)
    except (UnicodeEncodeError, LookupError) as problem:
        raise CommandExecutionError(str(problem)) from problem


def _shows_diff(options: ManagedOptions) -> bool:
    return truth(options.show_changes) and options.show_diff in (None, True)


def _changes_of(order: Order, old: Optional[bytes], new: bytes) -> Dict[str, Any]:
    options = order.options
    if old is None and not truth(options.new_file_diff):
        return {"newfile": str(order.path)} if order.test else {"diff": "New file"}
    return {"diff": content.diff(old or b"", new) if _shows_diff(options) else HIDDEN}


def _check(context: Context, order: Order, data: bytes) -> str:
    """Run check_cmd on a copy of the new content; return why it refuses it, or "".

    Raises:
        CommandExecutionError: there is no place for the copy.
    """
    given = order.options.check_cmd
    commands = [given] if isinstance(given, str) else listed(given)
    if not commands:
        return ""
    folder = order.options.tmp_dir or None
    try:
        handle, name = tempfile.mkstemp(suffix=order.options.tmp_ext, dir=folder)
    except OSError as problem:
        raise CommandExecutionError(f"tmp_dir {folder}: {problem.strerror}") from problem
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        for command in commands:
            ran = run_command(context, f"{command} {name}", RunOptions(python_shell=True, cwd="/"))
            if ran.retcode:
                said = "\n".join(text for text in (ran.stdout, ran.stderr) if text)
                return f"check_cmd execution failed\n{said}".rstrip()
    finally:
        Path(name).unlink(missing_ok=True)
    return ""


def _attributes_only(order: Order) -> StateResult:
    """Manage an existing file without content: its owner and mode alone."""
    path, name = order.path, str(order.path)
    if not order.test:
        changes = attributes.apply(path, order.wanted)
        if changes:
            return done("", changes)
        return done(f"File {name} exists with proper permissions. No changes made.")
    changes = attributes.differences(path, order.wanted)
    comment = f"File {name} not updated"
    if "mode" in changes:
        comment = (
            f"File {name} will be updated with permissions {changes['mode']} "
            f"from its current state of {attributes.mode_of(path)}"
        )
    return would(comment, changes) if changes else done(comment)


def _prepare_parent(order: Order) -> str:
    """Make the folder of the file when asked to; return why it can't be there, or ""."""
    folder = order.path.parent
    if folder.is_dir():
        return ""
    options = order.options
    if not truth(options.makedirs):
        return "Parent directory not present"
    mode = attributes.parse_mode(options.dir_mode) or _folder_mode(order.wanted.mode)
    make_folders(folder, Wanted(options.user, options.group, mode))
    return ""


def _folder_mode(mode: Optional[str]) -> Optional[str]:
    """Return a file's mode with the x bits that a folder needs where the file has r bits."""
    if not mode:
        return None
    number = int(mode, 8)
    return f"{number | ((number & 0o444) >> 2):04o}"


def _told_mode(order: Order) -> Dict[str, Any]:
    """Return the mode of a new file as the changes show it.

    As in Salt, which makes a file with mode 0600: only a mode that had to be changed is told, and
    the usual mode of a file without a source never is.
    """
    mode = order.wanted.mode or (attributes.default_mode() if order.options.has_source else None)
    return {} if mode in (None, attributes.PRIVATE) else {"mode": mode}


def _planned(order: Order, changes: Dict[str, Any], there: bool) -> StateResult:
    if there:
        changes.update(attributes.differences(order.path, order.wanted))
    if changes:
        return would(f"The file {order.path} is set to be changed\n{_TEST_NOTE}", changes)
    return done(f"The file {order.path} is in the correct state")


def _create_or_update(context: Context, order: Order, data: bytes) -> StateResult:
    path = order.path
    there = path.exists()
    new_link = path.is_symlink() and not truth(order.options.follow_symlinks)
    old = content.read(path) if there else None
    if new_link and old == data:
        old = None
    changes = {} if old == data else _changes_of(order, old, data)
    if order.test:
        return _planned(order, changes, there)
    if old != data:
        refused = _check(context, order, data) or _prepare_parent(order)
        if refused:
            return failed(refused)
        if order.options.backup in content.CACHED_BACKUPS:
            content.backup(context, path, order.options.backup)
        if new_link:
            path.unlink()
        order.write(path, data, order.wanted.mode)
    return _finished(order, changes, old is None)


def _finished(order: Order, changes: Dict[str, Any], new: bool) -> StateResult:
    """Give a file whose content is right its owner and mode, and tell what was done."""
    changes.update(attributes.apply(order.path, order.wanted))
    if new:
        changes.pop("mode", None)
        changes.update(_told_mode(order))
    if changes:
        return done(f"File {order.path} updated", changes)
    return done(f"File {order.path} is in the correct state")


def _distant(context: Context, order: Order) -> Optional[Distant]:
    """Return the source where it is large, not on this host, and wanted as it is; else None.

    It goes straight to its place: kept in the cache too, it would be written twice and take the
    room twice.
    """
    options = order.options
    others = (options.template, options.encoding, options.check_cmd, options.new_file_diff)
    locations = listed(options.source) if options.has_source else []
    known = order.known is not None or given_contents(context, options) is not None
    if not locations or known or any(others) or order.path.is_symlink():
        return None
    if not all(str(location).startswith("salt://") for location in locations):
        return None
    chosen = find_source(context, options)
    far = context.files.distant(*split_location(chosen.location, chosen.saltenv))
    if far is not None and order.test and order.path.exists() and not _has(order.path, far):
        # To say how it would change takes a look at it.
        return None
    return far


def _has(path: Path, far: Distant) -> bool:
    """Return whether a file that is there has the content of one that is far away."""
    same = path.stat().st_size == far.entry.size
    return same and source.hash_file(path) == far.entry.sha256


def _bring(context: Context, order: Order, far: Distant) -> StateResult:
    """Bring a large file to its place, unless it has that content already."""
    path, there = order.path, order.path.exists()
    if there and _has(path, far):
        return _planned(order, {}, there) if order.test else _finished(order, {}, False)
    changes: Dict[str, Any] = {} if there else _changes_of(order, None, b"")
    if order.test:
        return _planned(order, changes, there)
    refused = _prepare_parent(order)
    if refused:
        return failed(refused)

    def fill(handle: int) -> None:
        far.write_to(handle)
        if there:
            changes.update(_replaced(context, order, handle))

    content.write_by(path, fill, order.wanted.mode)
    return _finished(order, changes, not there)


def _replaced(context: Context, order: Order, handle: int) -> Dict[str, Any]:
    """Keep a copy of a large file that is about to be replaced, if wanted; tell the change."""
    if order.options.backup in content.CACHED_BACKUPS:
        content.backup(context, order.path, order.options.backup)
    if not _shows_diff(order.options):
        return {"diff": HIDDEN}
    with order.path.open("rb") as old:
        return {"diff": content.diff_of_large(old.fileno(), handle)}


def _empty_file(order: Order) -> StateResult:
    name = str(order.path)
    if order.test:
        return would(f"The file {name} is set to be changed\n{_TEST_NOTE}", {"newfile": name})
    missing = _prepare_parent(order)
    if missing:
        return failed(missing)
    order.write(order.path, b"", order.wanted.mode)
    changes = attributes.apply(order.path, order.wanted)
    return done("Empty file", {"new": f"file {name} created", **changes, **_told_mode(order)})


def manage(context: Context, order: Order) -> StateResult:
    """Bring one file into the state that *order* asks for."""
    path, options = order.path, order.options
    if path.is_dir():
        return failed(f"Specified target {path} is a directory")
    there = path.exists() or path.is_symlink()
    if not there and not truth(options.create):
        return done(f"File {path} is not present and is not set for creation")
    if path.exists() and not truth(options.replace):
        return _attributes_only(order)
    try:
        far = _distant(context, order)
        if far is not None:
            return _bring(context, order, far)
        data = new_content(context, order)
        if data is None:
            return _attributes_only(order) if path.exists() else _empty_file(order)
        return _create_or_update(context, order, data)
    except UsageError as problem:
        return failed(str(problem))
    except source.SourceHashError as problem:
        return failed(problem.told_of(str(path)))
    except source.SourceMissingError as problem:
        return failed(str(problem) if order.test else f"Unable to manage file: {problem}")
    except (CommandExecutionError, RenderError) as problem:
        return failed(f"Unable to manage file: {problem}")


def _mode(context: Context, options: ManagedOptions) -> Optional[str]:
    mode = attributes.parse_mode(options.mode)
    if mode != KEEP:
        return mode
    if options.has_source:
        return source.mode_of(context, find_source(context, options))
    if (options.contents, options.contents_pillar, options.contents_grains) != (None, None, None):
        raise UsageError(
            "Mode preservation cannot be used in combination with 'contents', "
            "'contents_pillar', or 'contents_grains'"
        )
    return None


def _check_options(options: ManagedOptions) -> None:
    for name in ("context", "defaults"):
        if getattr(options, name) and not isinstance(getattr(options, name), Mapping):
            raise UsageError(f"{name.capitalize()} must be formed as a dict")
    if options.template and str(options.template) not in ENGINES:
        raise source.SourceMissingError(
            f"Specified template format {options.template} is not supported"
        )


def managed_order(context: Context, name: str, options: ManagedOptions) -> Order:
    """Return the order of one file.

    Raises:
        UsageError: the path is relative, or an argument is malformed.
        CommandExecutionError: `mode: keep`, and the source is not there.
    """
    _check_options(options)
    text = os.path.expanduser(str(name)) if str(name).startswith("~") else str(name)  # noqa: PTH111
    path = Path(text)
    if not path.is_absolute():
        raise UsageError(f"Specified file {name} is not an absolute path")
    wanted = Wanted(options.user, options.group, _mode(context, options))
    return Order(path, options, wanted, context.test, writer_of(context))


@state(wants=("check_cmd",), ahead=staged)
def managed(context: Context, /, name: str, source: Any = None, **options: Any) -> StateResult:
    """Make *name* a file with this content, owner and mode; write nothing when it is one.

    Args:
        context: the call's context.
        name: absolute path.
        source: salt://PATH, http(s)://…, an absolute path, or a list of which the first that is
            there counts.
        options: contents, contents_pillar, contents_grains, template, context, defaults, user,
            group, mode, makedirs, dir_mode, replace, create, backup, check_cmd, source_hash,
            skip_verify, show_changes, follow_symlinks, encoding, … as in Salt.
    """
    chosen, rest = split(ManagedOptions, {**options, "source": source})
    warnings = likely_typos(ManagedOptions, rest, "file.managed")
    try:
        for asked in _UNCHECKED:
            if rest.get(asked):
                raise UsageError(f"{asked}: signatures can't be verified here; use source_hash")
        order = managed_order(context, name, chosen)
        keep(context, order.path)
        problem = "" if context.test else attributes.missing_account(order.wanted)
        if problem:
            return failed(problem)
        result = manage(context, order)
    except (CommandExecutionError, UsageError) as refusal:
        return failed(str(refusal))
    return replace(result, warnings=(*result.warnings, *warnings))
