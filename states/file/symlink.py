"""file.symlink: a symbolic link and its target."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import make_folders, place_link, remove_path
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, would
from catena.states.file.kept import keep
from catena.states.file.paths import absolute


@dataclass(frozen=True)
class LinkOptions:
    """Arguments of file.symlink, with Salt's names and defaults."""

    force: bool = False
    backupname: Optional[str] = None
    makedirs: bool = False
    user: Any = None
    group: Any = None
    mode: Any = None
    atomic: bool = False

    def owner(self) -> Wanted:
        """Return the wanted owner of the link."""
        return Wanted(self.user, self.group or attributes.primary_group(self.user))

    def missing(self) -> str:
        """Return an error that names a missing user or group, or ""."""
        problem = attributes.missing_account(Wanted(self.user, self.group))
        return problem.strip().replace("is not available", "does not exist")


def _owner(path: Path) -> str:
    status = path.lstat()
    return f"{attributes.user_name(status.st_uid)}:{attributes.group_name(status.st_gid)}"


def _planned(link: Path, target: str, options: LinkOptions) -> StateResult:
    """Return the result of test mode."""
    name = str(link)
    if not os.path.lexists(link):
        comment = f"Symlink {name} to {target} is set for creation"
        if not link.parent.is_dir():
            folder = link.parent
            comment += (
                f"\n{folder} will be created"
                if truth(options.makedirs)
                else f"\nDirectory {folder} for symlink is not present"
            )
        return would(comment, {"new": name})
    if link.is_symlink():
        if os.readlink(link) != target:  # noqa: PTH115  # the text of the link, not a path
            comment = f"Link {name} target is set to be changed to {target}"
            return would(comment, {"change": name})
        wanted = options.owner()
        if attributes.differences(link, wanted, follow=False):
            was = _owner(link)
            return would(
                f"The symlink {name} is present, but the ownership of the symlink would be "
                f"changed from {was} to {wanted.user}:{wanted.group}",
                {"ownership": was},
            )
        return done(f"The symlink {name} is present")
    if truth(options.force):
        return would(
            f"The file or directory {name} is set for removal to make way for a new symlink "
            f"targeting {target}"
        )
    return failed(
        f"File or directory exists where the symlink {name} should be. Did you mean to use force?"
    )


def _clear_way(link: Path, target: str, options: LinkOptions) -> str:
    """Move or remove a file in the place of the link; return an error, or ""."""
    if link.is_symlink() or not link.exists():
        return ""
    if options.backupname:
        backup = Path(options.backupname)
        backup = backup if backup.is_absolute() else link.parent / backup
        if os.path.lexists(backup):
            if not truth(options.force):
                return (
                    f"Symlink & backup dest exists and Force not set. {link} -> {target} - "
                    f"backup: {backup}"
                )
            remove_path(backup)
        link.rename(backup)
        return ""
    if truth(options.force):
        remove_path(link)
        return ""
    kind = "Directory" if link.is_dir() else "File"
    return f"{kind} exists where the symlink {link} should be"


def _made(link: Path, target: str, options: LinkOptions) -> StateResult:
    name, wanted = str(link), options.owner()
    if not link.parent.is_dir():
        if not truth(options.makedirs):
            return failed(f"Directory {link.parent} for symlink is not present")
        dir_mode = attributes.parse_mode(options.mode)
        make_folders(link.parent, Wanted(options.user, options.group, dir_mode))
    if link.is_symlink() and os.readlink(link) == target:  # noqa: PTH115
        if attributes.apply(link, wanted, follow=False):
            owner = _owner(link)
            return done(f"Set ownership of symlink {name} to {owner}", {"ownership": owner})
        return done(f"Symlink {name} is present and owned by {_owner(link)}")
    refused = _clear_way(link, target, options)
    if refused:
        return failed(refused)
    place_link(link, target, force=True)
    attributes.apply(link, wanted, follow=False)
    return done(f"Created new symlink {name} -> {target}", {"new": name})


def manage_link(context: Context, link: Path, target: str, options: LinkOptions) -> StateResult:
    """Make *link* point to *target*; in test mode only report the change."""
    keep(context, link)
    refused = options.missing()
    if refused:
        return failed(refused)
    try:
        return (_planned if context.test else _made)(link, target, options)
    except CommandExecutionError as problem:
        return failed(str(problem))
    except OSError as problem:
        return failed(f"{link}: {problem.strerror}")


@state()
def symlink(context: Context, /, name: str, target: str, **options: Any) -> StateResult:
    """Make *name* a symbolic link to *target*; change the target of an existing link.

    Args:
        context: the call's context.
        name: absolute path of the link.
        target: text of the link.
        options: force (replace a file or folder), backupname, makedirs, user, group (default: the
            user's own), mode (of created folders).
    """
    chosen, _ = split(LinkOptions, options)
    try:
        return manage_link(context, absolute(name), str(target), chosen)
    except CommandExecutionError as problem:
        return failed(str(problem))
