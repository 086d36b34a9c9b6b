"""file.recurse: copy a folder of the file server with its contents."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context, FileEntry
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import content
from catena.modules.file.staged import FILE_BYTES, GROUP_BYTES, GROUP_FILES, Staged
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.attributes import KEEP
from catena.modules.shared.locations import split_location
from catena.states.answers import failed, likely_typos, would
from catena.states.compiler.call import REQUIRED
from catena.states.file.directory import (
    FolderOptions,
    doomed_by,
    folder_order,
    manage_folder,
    remove_all,
)
from catena.states.file.kept import keep
from catena.states.file.managed import ManagedFile, manage, managed_order
from catena.states.file.options import ManagedOptions
from catena.states.file.patterns import chosen as chosen_by
from catena.states.file.symlink import LinkOptions, manage_link


@dataclass(frozen=True)
class RecurseOptions:
    """Arguments of file.recurse, with Salt's names and defaults."""

    keep_source: bool = True
    clean: bool = False
    user: Any = None
    group: Any = None
    dir_mode: Any = None
    file_mode: Any = None
    sym_mode: Any = None
    template: Optional[str] = None
    context: Any = None
    replace: bool = True
    defaults: Any = None
    include_empty: bool = False
    backup: Any = ""
    include_pat: Any = None
    exclude_pat: Any = None
    maxdepth: Optional[int] = None
    keep_symlinks: bool = False
    force_symlinks: bool = False
    makedirs: bool = True
    saltenv: Optional[str] = None
    show_changes: bool = True
    #: Copy the files of all existing sources, not only of the first.
    merge: bool = False
    #: Low states that this state requires.
    required: Sequence[Mapping[str, Any]] = ()


@dataclass
class _Tally:
    """The collected results of the members of one recurse."""

    changes: Dict[str, Any] = field(default_factory=dict)
    comments: Dict[str, List[str]] = field(default_factory=dict)
    failed: bool = False
    pending: bool = False

    def add(self, path: Path, result: StateResult) -> None:
        """Add the result of one member."""
        if result.changes:
            self.changes[str(path)] = dict(result.changes)
        if result.result is None:
            self.pending = True
        if result.result is False:
            self.failed = True
        if result.result is not True and result.comment:
            self.comments.setdefault(str(path), []).append(result.comment)

    def text(self) -> str:
        """Return the comment, with one part per path."""
        return "\n\n".join(
            "\n".join([f"#### {path} ####", *texts]) for path, texts in self.comments.items()
        )


@dataclass(frozen=True)
class _Place:
    """A folder of the file server."""

    prefix: str
    env: str

    @property
    def below(self) -> str:
        """The prefix of the paths of its files."""
        return self.prefix + "/" if self.prefix else ""


def _there(context: Context, place: _Place) -> bool:
    entries = context.files.entries(place.env, place.below)
    if any(entry.path.startswith(place.below) for entry in entries):
        return True
    folders = context.files.folders(place.env, place.prefix)
    return place.prefix in (folder.strip("/") for folder in folders)


def _places(context: Context, sources: Any, saltenv: str, merge: bool) -> List[_Place]:
    """Return the first existing source; with *merge*, all existing ones.

    Raises:
        CommandExecutionError: no source exists.
        UsageError: a source is not salt://.
    """
    found = []
    for entry in sources if isinstance(sources, (list, tuple)) else [sources]:
        location = str(entry)
        if not location.startswith("salt://"):
            raise UsageError(f"Invalid source {location!r} (must be a salt:// URI)")
        prefix, env = split_location(location, saltenv)
        place = _Place(prefix.strip("/"), env)
        if _there(context, place):
            found.append(place)
    if not found:
        raise CommandExecutionError("none of the specified sources were found")
    return found if merge else found[:1]


def _relative(path: str, prefix: str) -> Optional[str]:
    path = path.strip("/")
    if not prefix:
        return path
    return path[len(prefix) + 1 :] if path.startswith(prefix + "/") else None


def _wanted(relative: str, options: RecurseOptions) -> bool:
    depth = relative.count("/")
    if options.maxdepth is not None and depth > int(options.maxdepth):
        return False
    return chosen_by(relative, options.include_pat, options.exclude_pat)


def _folders(
    context: Context, places: Sequence[_Place], files: Iterable[str], options: RecurseOptions
) -> List[str]:
    """Return the relative folders to create: those of files; with include_empty, all."""
    needed = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    if not truth(options.include_empty):
        return sorted(needed)
    for place in places:
        for folder in context.files.folders(place.env, place.prefix):
            relative = _relative(folder, place.prefix)
            if relative and _wanted(relative, replace(options, include_pat=None)):
                needed.add(relative)
    return sorted(needed)


def _folder_options(options: RecurseOptions, clean: bool = False) -> FolderOptions:
    return FolderOptions(
        user=options.user,
        group=options.group,
        dir_mode=options.dir_mode,
        makedirs=True,
        clean=clean,
        exclude_pat=options.exclude_pat if clean else None,
    )


def _file_options(options: RecurseOptions, location: str, env: str) -> ManagedOptions:
    return ManagedOptions(
        source=location,
        user=options.user,
        group=options.group,
        mode=options.file_mode,
        template=options.template,
        context=options.context,
        defaults=options.defaults,
        replace=options.replace,
        backup=options.backup,
        makedirs=True,
        dir_mode=options.dir_mode,
        saltenv=env,
        show_changes=options.show_changes,
    )


def _member(
    context: Context, path: Path, entry: FileEntry, order: ManagedFile, options: RecurseOptions
) -> StateResult:
    keep(context, path)
    if _is_kept_link(entry, options):
        force = truth(options.force_symlinks)
        wanted = LinkOptions(
            force=force, makedirs=True, user=options.user, group=options.group,
            mode=options.sym_mode,
        )  # fmt: skip
        return manage_link(context, path, entry.link, wanted)
    try:
        return manage(context, order)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))


def _is_kept_link(entry: FileEntry, options: RecurseOptions) -> bool:
    return bool(entry.link) and truth(options.keep_symlinks)


def _order(
    context: Context, path: Path, entry: FileEntry, env: str, options: RecurseOptions
) -> ManagedFile:
    """Return the settings for one file."""
    if options.file_mode == KEEP:
        options = replace(options, file_mode=f"{entry.mode & 0o7777:04o}")
    location = f"salt://{entry.path}"
    return managed_order(context, str(path), _file_options(options, location, env))


def member_orders(
    context: Context, name: str, source: Any, **options: Any
) -> Iterator[ManagedFile]:
    """Yield the settings for each file of a recurse with these arguments; change nothing.

    Raises:
        CommandExecutionError: the source does not exist.
        UsageError: an argument is invalid.
    """
    chosen, _ = split(RecurseOptions, options)
    env = chosen.saltenv or context.saltenv
    places = _places(context, source, env, truth(chosen.merge))
    for relative, (entry, saltenv) in sorted(_members(context, places, chosen).items()):
        yield _order(context, Path(name) / relative, entry, saltenv, chosen)


def _clean(context: Context, path: Path, options: RecurseOptions, tally: _Tally) -> None:
    """Remove files that belong neither to the source nor to a required state."""
    own = {"state": "file", "fun": "recurse", "name": str(path)}
    chosen = _folder_options(options, clean=True)
    order = folder_order(context, str(path), chosen, [own, *options.required])
    doomed = doomed_by(context, order)
    if doomed and context.test:
        tally.pending = True
        tally.comments["removed"] = ["\n".join(str(each) for each in doomed)]
    elif doomed:
        tally.changes["removed"] = remove_all(doomed)


def _members(
    context: Context, places: Sequence[_Place], options: RecurseOptions
) -> Dict[str, Tuple[FileEntry, str]]:
    """Return (file, environment) by relative path; the first merged source wins."""
    members: Dict[str, Tuple[FileEntry, str]] = {}
    for place in places:
        for entry in context.files.entries(place.env, place.below):
            relative = _relative(entry.path, place.prefix)
            if relative and relative not in members and _wanted(relative, options):
                members[relative] = entry, place.env
    return members


#: (relative path, file, environment).
_Member = Tuple[str, FileEntry, str]
_Ordered = Tuple[FileEntry, ManagedFile]


def _groups(members: Mapping[str, Tuple[FileEntry, str]]) -> Iterator[List[_Member]]:
    """Yield the members in order, in groups that are staged together."""
    group: List[_Member] = []
    size = 0
    for relative, (entry, env) in sorted(members.items()):
        group.append((relative, entry, env))
        size += entry.size
        if len(group) == GROUP_FILES or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _run_group(
    context: Context, path: Path, group: Sequence[_Member], options: RecurseOptions, tally: _Tally
) -> None:
    orders: List[_Ordered] = []
    for relative, entry, env in group:
        try:
            orders.append((entry, _order(context, path / relative, entry, env, options)))
        except (CommandExecutionError, UsageError) as problem:
            tally.add(path / relative, failed(str(problem)))
    orders = _with_contents(context, orders, options)
    with Staged([] if context.test else _new_files(orders)) as staged:
        for entry, order in orders:
            staging = replace(order, write=staged.write)
            tally.add(order.path, _member(context, order.path, entry, staging, options))


def _with_contents(
    context: Context, orders: Sequence[_Ordered], options: RecurseOptions
) -> List[_Ordered]:
    """Return the orders; those of small files contain their contents.

    One request fetches all contents; single requests would cost one round trip each. Contents of
    unchanged files are not fetched.
    """
    known: Dict[Path, bytes] = {}
    absent: Dict[str, List[_Ordered]] = {}
    for entry, order in orders:
        if options.template:
            # A rendered file may also be read by name.
            absent.setdefault(str(order.options.saltenv), []).append((entry, order))
        elif entry.size <= FILE_BYTES and not _is_kept_link(entry, options):
            there = _read(order.path) if order.path.is_file() else None
            if there is not None and hashlib.sha256(there).hexdigest() == entry.sha256:
                known[order.path] = there
            elif there is None or truth(options.replace):
                absent.setdefault(str(order.options.saltenv), []).append((entry, order))
    for env, some in absent.items():
        paths = [entry.path for entry, _ in some]
        if options.template:
            context.files.fetch_all(paths, env)
            continue
        for (_, order), data in zip(some, context.files.contents(paths, env)):
            if data is not None:
                known[order.path] = data
    return [(entry, replace(order, known=known.get(order.path))) for entry, order in orders]


def _read(path: Path) -> Optional[bytes]:
    """Return a file's content; None if it can't be read, which its own step reports."""
    try:
        return content.read(path)
    except CommandExecutionError:
        return None


def _new_files(orders: Sequence[_Ordered]) -> Iterator[Tuple[Path, bytes, Optional[str]]]:
    """Yield path, content and mode of the files that do not exist yet."""
    for _, order in orders:
        if order.known is not None and not order.path.exists():
            yield order.path, order.known, order.wanted.mode


def _run(
    context: Context, path: Path, places: Sequence[_Place], options: RecurseOptions
) -> _Tally:
    members = _members(context, places, options)
    tally = _Tally()
    names = _folders(context, places, members, options)
    for folder in [path, *(path / name for name in names)]:
        keep(context, folder)
        order = folder_order(context, str(folder), _folder_options(options))
        tally.add(folder, manage_folder(context, order))
    for group in _groups(members):
        _run_group(context, path, group, options, tally)
    if truth(options.clean) and path.is_dir():
        _clean(context, path, options, tally)
    return tally


@state(wants=(REQUIRED,))
def recurse(context: Context, /, name: str, source: Any, **options: Any) -> StateResult:
    """Copy a folder of the file server with its contents to *name*.

    Args:
        context: the call's context.
        name: absolute path.
        source: salt://FOLDER, or a list from which the first existing one is used.
        options: user, group, dir_mode, file_mode ("keep" too), template, context, defaults,
            include_pat, exclude_pat, include_empty, maxdepth, clean, keep_symlinks, merge, … as in
            Salt.
    """
    required = options.pop(REQUIRED, ())
    chosen, rest = split(RecurseOptions, options)
    chosen = replace(chosen, required=required)
    warnings = likely_typos(RecurseOptions, rest, "file.recurse")
    if "mode" in rest:
        return failed("'mode' is not allowed in 'file.recurse'. Use 'file_mode' and 'dir_mode'.")
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        return failed(f"Specified file {name} is not an absolute path")
    try:
        env = chosen.saltenv or context.saltenv
        places = _places(context, source, env, truth(chosen.merge))
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Recurse failed: {problem}")
    if path.exists() and not path.is_dir():
        return failed(f"The path {name} exists and is not a directory")
    try:
        missing = attributes.missing_account(attributes.Wanted(chosen.user, chosen.group))
        if missing and not context.test:
            return failed(missing)
        tally = _run(context, path, places, chosen)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    if tally.failed:
        return failed(tally.text(), tally.changes)
    if tally.pending:
        return would(tally.text(), tally.changes)
    if tally.changes:
        return StateResult(True, tally.changes, f"Recursively updated {name}", warnings)
    return StateResult(True, {}, f"The directory {name} is in the correct state", warnings)
