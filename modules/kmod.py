"""kmod.*: kernel modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function

_LOADED = Path("/proc/modules")
_CONFIGURED = Path("/etc/modules")
_SUFFIXES = (".ko", ".ko.gz", ".ko.xz", ".ko.zst")


def _plain(name: str) -> str:
    return str(name).replace("-", "_")


@function(reads=True)
def lsmod(context: Context) -> List[Dict[str, Any]]:
    """Return module, size, depcount and users (deps) of every loaded module."""
    found = []
    for line in _LOADED.read_text(encoding="ascii").splitlines() if _LOADED.exists() else []:
        name, size, count, users = line.split()[:4]
        names = [user for user in users.split(",") if user not in ("", "-")]
        found.append({"module": name, "size": size, "depcount": count, "deps": names})
    return found


@function(reads=True)
def is_loaded(context: Context, mod: str) -> bool:
    """Return whether a module is loaded."""
    return any(row["module"] == _plain(mod) for row in lsmod(context))


@function(reads=True)
def mod_list(context: Context, only_persist: bool = False) -> List[str]:
    """Return the loaded modules, sorted; with *only_persist* those that are loaded at boot."""
    if not only_persist:
        return sorted(row["module"] for row in lsmod(context))
    if not _CONFIGURED.exists():
        return []
    lines = _CONFIGURED.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted(line.split()[0] for line in lines if line.strip() and line.strip()[0] != "#")


@function(reads=True)
def available(context: Context) -> List[str]:
    """Return the modules that this kernel can load, sorted."""
    folder, found = Path("/lib/modules", os.uname().release), set()
    for _, _, names in os.walk(folder):
        for name in names:
            stem = next((name[: -len(end)] for end in _SUFFIXES if name.endswith(end)), "")
            if stem:
                found.add(_plain(stem))
    built_in = folder / "modules.builtin"
    if built_in.exists():
        lines = built_in.read_text(encoding="utf-8", errors="replace").splitlines()
        found |= {_plain(line.rsplit("/", 1)[-1].partition(".ko")[0]) for line in lines}
    return sorted(found)


@function(reads=True)
def check_available(context: Context, mod: str) -> bool:
    """Return whether this kernel can load a module."""
    return _plain(mod) in available(context)


def _changed(context: Context, words: List[str]) -> List[str]:
    """Run a program and return the modules that it loaded or removed.

    Raises:
        CommandExecutionError: it fails.
    """
    from catena.modules.shared.command.options import RunOptions
    from catena.modules.shared.command.run import run

    before = {row["module"] for row in lsmod(context)}
    ran = run(context, words, RunOptions(python_shell=False))
    if ran.retcode:
        raise CommandExecutionError(f"{' '.join(words)}: {ran.stderr or ran.stdout}")
    return sorted(before ^ {row["module"] for row in lsmod(context)})


@function()
def load(context: Context, mod: str) -> List[str]:
    """Load a module and return all newly loaded modules."""
    return _changed(context, ["modprobe", "--", str(mod)])


@function()
def remove(context: Context, mod: str) -> List[str]:
    """Remove a module and return all removed modules."""
    return _changed(context, ["modprobe", "-r", "--", str(mod)])
