"""file.managed: a file with a content, an owner and a mode."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, RenderError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.arguments import listed, mapped, split, truth
from catena.modules.cmd.options import RunOptions
from catena.modules.cmd.run import run as run_command
from catena.modules.file import attributes, content, source
from catena.modules.file.attributes import KEEP, Wanted
from catena.modules.file.change import make_folders, remove_path
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.kept import accumulated, keep

_TEST_NOTE = "Note: No changes made, actual changes may\nbe different due to other states."
_HIDDEN = "<show_changes=False>"


@dataclass(frozen=True)
class ManagedOptions:
    """Arguments of file.managed, with Salt's names and defaults."""

    source: Any = None
    source_hash: str = ""
    source_hash_name: Optional[str] = None
    keep_source: bool = True
    user: Any = None
    group: Any = None
    mode: Any = None
    attrs: Any = None
    template: Optional[str] = None
    makedirs: bool = False
    dir_mode: Any = None
    context: Any = None
    defaults: Any = None
    replace: bool = True
    backup: Any = ""
    create: bool = True
    contents: Any = None
    contents_pillar: Any = None
    contents_grains: Any = None
    contents_newline: bool = True
    contents_delimiter: str = ":"
    allow_empty: bool = True
    show_changes: bool = True
    show_diff: Optional[bool] = None
    new_file_diff: bool = False
    follow_symlinks: bool = True
    check_cmd: Any = None
    tmp_dir: str = ""
    tmp_ext: str = ""
    skip_verify: bool = False
    selinux: Any = None
    encoding: Optional[str] = None
    encoding_errors: str = "strict"
    force: bool = False
    saltenv: Optional[str] = None
    verify_ssl: bool = True
    use_etag: bool = False
    #: The names of other systems' arguments, which do nothing here.
    win_owner: Any = None
    win_perms: Any = None
    win_deny_perms: Any = None
    win_inheritance: Any = None
    win_perms_reset: Any = None


@dataclass(frozen=True)
class Order:
    """One file.managed: what to do with one path."""

    path: Path
    options: ManagedOptions
    wanted: Wanted
    test: bool


def _lookup(tree: Mapping[str, Any], key: str, delimiter: str) -> Any:
    found: Any = tree
    for part in str(key).split(delimiter):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _given_contents(context: Context, options: ManagedOptions) -> Any:
    """Return the contents as the SLS, pillar or grains give them; None when they don't.

    Raises:
        UsageError: more than one was asked for, or the pillar or grain is not there.
    """
    kinds = (
        ("contents", options.contents is not None),
        ("contents_pillar", options.contents_pillar is not None),
        ("contents_grains", options.contents_grains is not None),
    )
    asked = [name for name, given in kinds if given]
    if options.source is not None and asked:
        raise UsageError(f"'source' cannot be used in combination with '{asked[0]}'")
    if len(asked) > 1:
        raise UsageError(
            "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted"
        )
    if not asked or asked == ["contents"]:
        return options.contents
    kind, tree = ("pillar", context.pillar) if "pillar" in asked[0] else ("grain", context.grains)
    names = listed(options.contents_pillar if kind == "pillar" else options.contents_grains)
    values = [_lookup(tree, name, options.contents_delimiter) for name in names]
    for name, value in zip(names, values):
        if value is None:
            raise UsageError(f"{kind.capitalize()} {name} does not exist")
    return values[0] if len(values) == 1 else values


def _text(value: Any, newline: bool) -> str:
    if isinstance(value, bytes):
        return content.decode(value)
    if isinstance(value, (list, tuple)):
        text = "\n".join(_text(part, False).rstrip("\n") for part in value)
    elif isinstance(value, Mapping):
        raise UsageError("contents must be text or a list of lines; use file.serialize for data")
    else:
        text = str(value)
    return text + "\n" if newline and text and not text.endswith("\n") else text


def _rendered(context: Context, order: Order, text: str, origin: str) -> str:
    from catena.renderers.templates import render_file

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
        **mapped(options.defaults),
        **mapped(options.context),
    }
    return str(render_file(context, text, str(options.template), variables))


def find_source(context: Context, options: ManagedOptions) -> source.Source:
    """Return the source that an order names, the first that is there when it names several.

    Raises:
        CommandExecutionError: none is there.
    """
    base = source.Source(
        "",
        options.saltenv or context.saltenv,
        str(options.source_hash or ""),
        options.source_hash_name,
        truth(options.skip_verify),
    )
    if isinstance(options.source, (list, tuple)):
        return source.first_of(context, list(options.source), base)
    return replace(base, location=str(options.source))


def new_content(context: Context, order: Order) -> Optional[bytes]:
    """Return the bytes that the file should have; None when only its attributes are managed.

    Raises:
        CommandExecutionError: the source can't be had.
        UsageError: the arguments make no sense.
        RenderError: the template fails.
    """
    options = order.options
    encoding = options.encoding or "utf-8"
    given = _given_contents(context, options)
    if given is None and options.source is None:
        return None
    if given is not None:
        if given in ("", [], {}) and not truth(options.allow_empty):
            raise UsageError("contents are empty, and allow_empty is False")
        text, origin = _text(given, truth(options.contents_newline)), str(order.path)
    else:
        chosen = find_source(context, options)
        found = source.fetch(context, chosen)
        if found is None:
            raise CommandExecutionError(
                f"Source file {chosen.location} not found in saltenv '{chosen.saltenv}'"
            )
        if not options.template:
            return content.read(found)
        text, origin = content.decode(content.read(found)), chosen.location
    if options.template:
        text = _rendered(context, order, text, origin)
    return content.encode(text, encoding)


def _changes_of(order: Order, old: Optional[bytes], new: bytes) -> Dict[str, Any]:
    options = order.options
    shown = truth(options.show_changes) and options.show_diff in (None, True)
    if old is None and not truth(options.new_file_diff):
        return {"newfile": str(order.path)} if order.test else {"diff": "New file"}
    return {"diff": content.diff(old or b"", new) if shown else _HIDDEN}


def _check(context: Context, order: Order, data: bytes) -> str:
    """Run check_cmd on a copy of the new content; return why it refuses it, or ""."""
    commands = listed(order.options.check_cmd) if order.options.check_cmd else []
    if isinstance(order.options.check_cmd, str):
        commands = [order.options.check_cmd]
    if not commands:
        return ""
    handle, name = tempfile.mkstemp(
        suffix=order.options.tmp_ext, dir=order.options.tmp_dir or None
    )
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
    before = attributes.mode_of(path)
    if order.test:
        changes = attributes.differences(path, order.wanted)
        if not changes:
            if not truth(order.options.replace):
                return done(f"File {name} not updated")
            return done(f"File {name} exists with proper permissions. No changes made.")
        if set(changes) == {"mode"}:
            return would(
                f"File {name} will be updated with permissions {changes['mode']} "
                f"from its current state of {before}",
                changes,
            )
        return would(f"File {name} will be updated with other attributes", changes)
    changes = attributes.apply(path, order.wanted)
    if changes:
        return done("", changes)
    return done(f"File {name} exists with proper permissions. No changes made.")


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
    if not mode or mode == KEEP:
        return None
    number = int(mode, 8)
    return f"{number | ((number & 0o444) >> 2):04o}"


def _create_or_update(context: Context, order: Order, data: bytes) -> StateResult:
    path, name = order.path, str(order.path)
    real = path.resolve() if truth(order.options.follow_symlinks) else path
    new_link = path.is_symlink() and not truth(order.options.follow_symlinks)
    there = path.exists() and not new_link
    old = content.read(real) if there else None
    changes = {} if old == data else _changes_of(order, old, data)
    if there and order.test:
        changes.update(attributes.differences(path, order.wanted))
    if order.test:
        if changes:
            return would(f"The file {name} is set to be changed\n{_TEST_NOTE}", changes)
        return done(f"The file {name} is in the correct state")
    if old != data:
        refused = _check(context, order, data)
        if refused:
            return failed(refused)
        missing = _prepare_parent(order)
        if missing:
            return failed(missing)
        content.backup(context, path, order.options.backup)
        if new_link:
            path.unlink()
        content.write(path, data, None if order.wanted.mode in (None, KEEP) else order.wanted.mode)
    done_to = attributes.apply(path, order.wanted)
    if old is None and order.wanted.mode not in (None, KEEP):
        done_to["mode"] = order.wanted.mode
    changes.update(done_to)
    if changes:
        return done(f"File {name} updated", changes)
    return done(f"File {name} is in the correct state")


def _empty_file(order: Order) -> StateResult:
    name = str(order.path)
    if order.test:
        return would(f"The file {name} is set to be changed\n{_TEST_NOTE}", {"newfile": name})
    missing = _prepare_parent(order)
    if missing:
        return failed(missing)
    mode = order.wanted.mode
    content.write(order.path, b"", None if mode in (None, KEEP) else mode)
    attributes.apply(order.path, order.wanted)
    return done("Empty file", {"new": f"file {name} created"})


def manage(context: Context, order: Order) -> StateResult:
    """Bring one file into the state that *order* asks for."""
    path, options = order.path, order.options
    there = path.exists() or path.is_symlink()
    if not there and not truth(options.create):
        return done(f"File {path} is not present and is not set for creation")
    if path.exists() and not truth(options.replace):
        return _attributes_only(order)
    try:
        data = new_content(context, order)
        if data is None:
            return _attributes_only(order) if path.exists() else _empty_file(order)
        return _create_or_update(context, order, data)
    except (CommandExecutionError, RenderError, UsageError) as problem:
        return failed(f"Unable to manage file: {problem}")


def _mode(context: Context, options: ManagedOptions) -> Optional[str]:
    mode = attributes.parse_mode(options.mode)
    if mode != KEEP:
        return mode
    if options.source is None:
        raise UsageError("mode: keep needs a source")
    return source.mode_of(context, find_source(context, options))


def _clear_way(order: Order) -> Tuple[Optional[StateResult], Dict[str, Any]]:
    """Refuse, or with `force` remove, a folder that stands where the file should be."""
    if not order.path.is_dir():
        return None, {}
    if not truth(order.options.force):
        return failed(f"Specified target {order.path} is a directory"), {}
    if order.test:
        return would(f"The directory {order.path} is set to be replaced", {
            "forced": "Directory would be forcibly replaced"
        }), {}  # fmt: skip
    remove_path(order.path)
    return None, {"forced": "Directory was forcibly replaced"}


def managed_order(context: Context, name: str, options: ManagedOptions) -> Order:
    """Return the order of one file.

    Raises:
        UsageError: the path is relative, or a mode is malformed.
        CommandExecutionError: `mode: keep`, and the source is not there.
    """
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        raise UsageError(f"Specified file {name} is not an absolute path")
    wanted = Wanted(options.user, options.group, _mode(context, options))
    return Order(path, options, wanted, context.test)


@state(wants=("check_cmd",))
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
        order = managed_order(context, name, chosen)
        keep(context, order.path)
        problem = attributes.missing_account(order.wanted)
        if problem and not context.test:
            return failed(problem)
        if problem:
            order = replace(order, wanted=replace(order.wanted, user=None, group=None))
            warnings = (*warnings, f"{problem}; another state may add it")
        stop, forced = _clear_way(order)
        result = stop or manage(context, order)
    except (CommandExecutionError, UsageError) as refusal:
        return failed(str(refusal))
    changes = {**forced, **result.changes}
    return replace(result, changes=changes, warnings=(*result.warnings, *warnings))
