"""file.mknod: device files and named pipes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Tuple

from catena.core.context import Context
from catena.core.dry_run import announce
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import make_folders
from catena.modules.shared import attributes
from catena.modules.shared.attributes import Wanted
from catena.states.answers import done, failed, would
from catena.states.file.paths import absolute

#: By `ntype`: the file type and its name in messages.
_KINDS = {
    "c": (stat.S_IFCHR, "Character device"),
    "b": (stat.S_IFBLK, "Block device"),
    "p": (stat.S_IFIFO, "Fifo pipe"),
}


@state()
def mknod(
    context: Context,
    name: str,
    ntype: str,
    major: int = 0,
    minor: int = 0,
    user: Any = None,
    group: Any = None,
    mode: Any = "0600",
) -> StateResult:
    """Create a device file (ntype c or b) or a named pipe (p)."""
    try:
        path = absolute(name)
        if ntype not in _KINDS:
            return failed(
                f"Node type unavailable: '{ntype}'. Available node types are character ('c'), "
                "block ('b'), and pipe ('p')"
            )
        wanted = Wanted(user, group, attributes.parse_mode(mode))
        device = 0 if ntype == "p" else os.makedev(int(major), int(minor))
        if os.path.lexists(path):
            return _existing(context, path, (ntype, device), wanted)
        label = _KINDS[ntype][1]
        if context.test:
            return would(f"{label} {name} is set to be created")
        make_folders(path.parent, Wanted())
        announce(f"make the device or pipe {path}")
        os.mknod(path, _KINDS[ntype][0] | 0o600, device)
        attributes.apply(path, wanted)
        return done("", {"new": f"{label} {name} created."})
    except OSError as problem:
        return failed(f"{name}: {problem.strerror}")
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))


def _existing(context: Context, path: Path, node: Tuple[str, int], wanted: Wanted) -> StateResult:
    kind, label = _KINDS[node[0]]
    status = path.lstat()
    if stat.S_IFMT(status.st_mode) != kind:
        return failed(f"File {path} exists and is not a {label.lower()}. Refusing to continue")
    if node[0] != "p" and status.st_rdev != node[1]:
        found = f"{os.major(status.st_rdev)}/{os.minor(status.st_rdev)}"
        return failed(
            f"{label} {path} exists and has a different major/minor {found}. Refusing to continue"
        )
    if context.test:
        lacking = attributes.differences(path, wanted)
        if lacking:
            return would("", lacking)
    else:
        changes = attributes.apply(path, wanted)
        if changes:
            return done("", changes)
    return done(f"{label} {path} is in the correct state")
