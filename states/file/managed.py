"""file.managed: a file with contents, owner and mode."""

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
#: Arguments for checks that are not supported; ignoring them would be insecure.
_UNCHECKED = ("signature", "source_hash_sig")
#: Text in place of the diff with `show_changes: False`.
HIDDEN = "<show_changes=False>"


@dataclass(frozen=True)
class ManagedFile:
    """The settings of one file.managed."""

    path: Path
    options: ManagedOptions
    wanted: Wanted
    test: bool
    #: Function that writes the content.
    write: Writer = content.write
    #: The content, if it is already known.
    known: Optional[bytes] = None


def _rendered(context: Context, order: ManagedFile, text: str, origin: str) -> str:
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
    """Return the source of *order*; of several, the first that exists.

    Raises:
        CommandExecutionError: no source exists.
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


def new_content(context: Context, order: ManagedFile) -> Optional[bytes]:
    """Return the wanted bytes of the file; None if only its attributes are managed.

    This is the case without contents and source, or if the file has the hash of a remote source.

    Raises:
        SourceMissingError: the source does not exist.
        CommandExecutionError: the source can't be fetched, or the text can't be encoded.
        UsageError: the arguments are contradictory.
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


def _changes_of(order: ManagedFile, old: Optional[bytes], new: bytes) -> Dict[str, Any]:
    options = order.options
    if old is None and not truth(options.new_file_diff):
        return {"newfile": str(order.path)} if order.test else {"diff": "New file"}
    return {"diff": content.diff(old or b"", new) if _shows_diff(options) else HIDDEN}


def _check(context: Context, order: ManagedFile, data: bytes) -> str:
    """Run check_cmd on a copy of the new content; return its error, or "".

    Raises:
        CommandExecutionError: the copy can't be written.
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


def _attributes_only(order: ManagedFile) -> StateResult:
    """Manage only owner and mode of an existing file."""
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


def _prepare_parent(order: ManagedFile) -> str:
    """Create the folder of the file if `makedirs` is set; return an error, or ""."""
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
    """Return a file's mode plus an x bit for each r bit, for its folder."""
    if not mode:
        return None
    number = int(mode, 8)
    return f"{number | ((number & 0o444) >> 2):04o}"


def _told_mode(order: ManagedFile) -> Dict[str, Any]:
    """Return the mode of a new file for the changes.

    Salt creates files with mode 0600 and reports only a mode that it had to change, but never the
    default mode of a file without a source.
    """
    mode = order.wanted.mode or (attributes.default_mode() if order.options.has_source else None)
    return {} if mode in (None, attributes.PRIVATE) else {"mode": mode}


def _planned(order: ManagedFile, changes: Dict[str, Any], there: bool) -> StateResult:
    if there:
        changes.update(attributes.differences(order.path, order.wanted))
    if changes:
        return would(f"The file {order.path} is set to be changed\n{_TEST_NOTE}", changes)
    return done(f"The file {order.path} is in the correct state")


def _create_or_update(context: Context, order: ManagedFile, data: bytes) -> StateResult:
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


def _finished(order: ManagedFile, changes: Dict[str, Any], new: bool) -> StateResult:
    """Set owner and mode of a file with correct content; return the result."""
    changes.update(attributes.apply(order.path, order.wanted))
    if new:
        changes.pop("mode", None)
        changes.update(_told_mode(order))
    if changes:
        return done(f"File {order.path} updated", changes)
    return done(f"File {order.path} is in the correct state")


def _distant(context: Context, order: ManagedFile) -> Optional[Distant]:
    """Return the source if it is large, remote and used unmodified; else None.

    Such a file is written directly to its path. Through the cache, it would be written twice and
    use the disk space twice.
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
        # A diff in test mode needs the content.
        return None
    return far


def _has(path: Path, far: Distant) -> bool:
    """Return whether an existing file has the content of a remote one."""
    same = path.stat().st_size == far.entry.size
    return same and source.hash_file(path) == far.entry.sha256


def _bring(context: Context, order: ManagedFile, far: Distant) -> StateResult:
    """Fetch a large file to its path, unless that has the content already."""
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


def _replaced(context: Context, order: ManagedFile, handle: int) -> Dict[str, Any]:
    """Back up a large file before its replacement, if wanted; return the change."""
    if order.options.backup in content.CACHED_BACKUPS:
        content.backup(context, order.path, order.options.backup)
    if not _shows_diff(order.options):
        return {"diff": HIDDEN}
    with order.path.open("rb") as old:
        return {"diff": content.diff_of_large(old.fileno(), handle)}


def _empty_file(order: ManagedFile) -> StateResult:
    name = str(order.path)
    if order.test:
        return would(f"The file {name} is set to be changed\n{_TEST_NOTE}", {"newfile": name})
    missing = _prepare_parent(order)
    if missing:
        return failed(missing)
    order.write(order.path, b"", order.wanted.mode)
    changes = attributes.apply(order.path, order.wanted)
    return done("Empty file", {"new": f"file {name} created", **changes, **_told_mode(order)})


def manage(context: Context, order: ManagedFile) -> StateResult:
    """Bring one file into the state that *order* describes."""
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


def managed_order(context: Context, name: str, options: ManagedOptions) -> ManagedFile:
    """Return the settings of one file from the arguments.

    Raises:
        UsageError: the path is relative, or an argument is malformed.
        CommandExecutionError: the source of `mode: keep` does not exist.
    """
    _check_options(options)
    text = os.path.expanduser(str(name)) if str(name).startswith("~") else str(name)  # noqa: PTH111
    path = Path(text)
    if not path.is_absolute():
        raise UsageError(f"Specified file {name} is not an absolute path")
    wanted = Wanted(options.user, options.group, _mode(context, options))
    return ManagedFile(path, options, wanted, context.test, writer_of(context))


@state(wants=("check_cmd",), ahead=staged)
def managed(context: Context, /, name: str, source: Any = None, **options: Any) -> StateResult:
    """Manage content, owner and mode of the file *name*; write only what differs.

    Args:
        context: the call's context.
        name: absolute path.
        source: salt://PATH, http(s)://…, an absolute path, or a list from which the first
            existing one is used.
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
