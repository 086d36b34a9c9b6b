"""file.recurse: a folder of the file server, with all that lies in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context, FileEntry
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.arguments import split, truth
from catena.modules.file import attributes, source
from catena.modules.file.attributes import KEEP
from catena.modules.file.change import place_link
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.directory import FolderOptions, folder_order, manage_folder
from catena.states.file.kept import keep
from catena.states.file.managed import manage, managed_order
from catena.states.file.options import ManagedOptions
from catena.states.file.patterns import chosen as chosen_by


@dataclass(frozen=True)
class RecurseOptions:
    """Arguments of file.recurse, with Salt's names and defaults."""

    keep_source: bool = True
    clean: bool = False
    require: Any = None
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


@dataclass
class _Tally:
    """What the members of one recurse came to."""

    changes: Dict[str, Any] = field(default_factory=dict)
    comments: Dict[str, List[str]] = field(default_factory=dict)
    failed: bool = False
    pending: bool = False

    def add(self, path: Path, result: StateResult) -> None:
        """Take one member's result."""
        if result.changes:
            self.changes[str(path)] = dict(result.changes)
        if result.result is None:
            self.pending = True
        if result.result is False:
            self.failed = True
        if result.result is not True and result.comment:
            self.comments.setdefault(str(path), []).append(result.comment)

    def text(self) -> str:
        """Return the comments by path."""
        return "\n\n".join(
            "\n".join([f"#### {path} ####", *texts]) for path, texts in self.comments.items()
        )


def _place(context: Context, sources: Any, saltenv: str) -> Tuple[str, str]:
    """Return (prefix, environment) of the first source that has files or folders.

    Raises:
        CommandExecutionError: none has.
        UsageError: a source is not salt://.
    """
    for entry in sources if isinstance(sources, (list, tuple)) else [sources]:
        location = str(entry)
        if not location.startswith("salt://"):
            raise UsageError(f"Invalid source {location!r} (must be a salt:// URI)")
        prefix, env = source.split(location, saltenv)
        prefix = prefix.strip("/")
        if context.files.entries(env, prefix + "/" if prefix else ""):
            return prefix, env
        if prefix in (folder.strip("/") for folder in context.files.folders(env, prefix)):
            return prefix, env
    raise CommandExecutionError("none of the specified sources were found")


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
    context: Context, prefix: str, env: str, files: List[str], options: RecurseOptions
) -> List[str]:
    """Return the relative folders to make: those of the files, and with include_empty all."""
    needed = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    for folder in context.files.folders(env, prefix):
        relative = _relative(folder, prefix)
        if not relative:
            continue
        excluded = bool(options.exclude_pat) and not chosen_by(relative, None, options.exclude_pat)
        if truth(options.include_empty) and not excluded:
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


def _link(context: Context, path: Path, entry: FileEntry, options: RecurseOptions) -> StateResult:
    if path.is_symlink() and str(path.readlink()) == entry.link:
        return done("")
    if context.test:
        return would(f"Symlink {path} to {entry.link} is set for creation", {"new": str(path)})
    place_link(path, entry.link, path.is_symlink() or truth(options.force_symlinks))
    return done(f"Created new symlink {path} -> {entry.link}", {"new": str(path)})


def _member(
    context: Context, path: Path, entry: FileEntry, env: str, options: RecurseOptions
) -> StateResult:
    keep(context, path)
    if entry.link and truth(options.keep_symlinks):
        return _link(context, path, entry, options)
    location = f"salt://{entry.path}"
    if options.file_mode == KEEP:
        options = replace(options, file_mode=f"{entry.mode & 0o7777:04o}")
    order = managed_order(context, str(path), _file_options(options, location, env))
    return manage(context, order)


def _run(context: Context, path: Path, place: Tuple[str, str], options: RecurseOptions) -> _Tally:
    prefix, env = place
    members: Dict[str, FileEntry] = {}
    for entry in context.files.entries(env, prefix + "/" if prefix else ""):
        relative = _relative(entry.path, prefix)
        if relative and _wanted(relative, options):
            members[relative] = entry
    tally = _Tally()
    # All at once: one by one, each would wait for the way to the master and back.
    context.files.fetch_all([entry.path for entry in members.values()], env)
    names = _folders(context, prefix, env, sorted(members), options)
    for folder in [path, *(path / name for name in names)]:
        keep(context, folder)
        order = folder_order(context, str(folder), _folder_options(options))
        tally.add(folder, manage_folder(context, order))
    for relative, entry in sorted(members.items()):
        tally.add(path / relative, _member(context, path / relative, entry, env, options))
    if truth(options.clean) and path.is_dir():
        order = folder_order(context, str(path), _folder_options(options, clean=True))
        result = manage_folder(context, order)
        if result.changes:
            tally.add(path, result)
            tally.changes["removed"] = [
                name
                for name, change in tally.changes.pop(str(path)).items()
                if isinstance(change, dict) and "removed" in change
            ]
    return tally


@state(wants=("require",))
def recurse(context: Context, /, name: str, source: Any, **options: Any) -> StateResult:
    """Bring a folder of the file server, with all that lies in it, to *name*.

    Args:
        context: the call's context.
        name: absolute path.
        source: salt://FOLDER, or a list of which the first that is there counts.
        options: user, group, dir_mode, file_mode ("keep" too), template, context, defaults,
            include_pat, exclude_pat, include_empty, maxdepth, clean, keep_symlinks, … as in Salt.
    """
    chosen, rest = split(RecurseOptions, options)
    warnings = likely_typos(RecurseOptions, rest, "file.recurse")
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        return failed(f"Specified file {name} is not an absolute path")
    try:
        place = _place(context, source, chosen.saltenv or context.saltenv)
    except (CommandExecutionError, UsageError) as problem:
        return failed(f"Recurse failed: {problem}")
    if path.exists() and not path.is_dir():
        return failed(f"The path {name} exists and is not a directory")
    try:
        missing = attributes.missing_account(attributes.Wanted(chosen.user, chosen.group))
        if missing and not context.test:
            return failed(missing)
        if missing:
            chosen = replace(chosen, user=None, group=None)
        tally = _run(context, path, place, chosen)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    if tally.failed:
        return failed(tally.text(), tally.changes)
    if tally.pending:
        return would(tally.text(), tally.changes)
    if tally.changes:
        return StateResult(True, tally.changes, f"Recursively updated {name}", warnings)
    return StateResult(True, {}, f"The directory {name} is in the correct state", warnings)
