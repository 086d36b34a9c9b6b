"""kmod.*: kernel modules."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Set

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function

_LOADED = Path("/proc/modules")
_CONFIGURED = Path("/etc/modules")
#: File for the modules that this program adds, with systemd.
_MANAGED = Path("/etc/modules-load.d/salt_managed.conf")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_SUFFIXES = (".ko", ".ko.gz", ".ko.xz", ".ko.zst")


def plain(name: str) -> str:
    """Return the name by which the kernel lists a module."""
    return str(name).replace("-", "_")


def checked(name: str) -> str:
    """Return *name* if it can be that of a module.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a module of the kernel")
    return str(name)


def _folder() -> Path:
    return Path("/lib/modules", os.uname().release)


def built_in() -> Set[str]:
    """Return the modules that are a fixed part of this kernel."""
    lines = _lines(_folder() / "modules.builtin")
    return {plain(line.rsplit("/", 1)[-1].partition(".ko")[0]) for line in lines}


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
    return any(row["module"] == plain(mod) for row in lsmod(context))


@function(reads=True)
def mod_list(context: Context, only_persist: bool = False) -> List[str]:
    """Return the loaded modules, sorted; with *only_persist* those that are loaded at boot."""
    if not only_persist:
        return sorted(row["module"] for row in lsmod(context))
    lines = [*_lines(_MANAGED), *_lines(_CONFIGURED)]
    return sorted({line.split()[0] for line in lines if _on(line)})


@function(reads=True)
def available(context: Context) -> List[str]:
    """Return the modules that this kernel can load, sorted."""
    folder, found = _folder(), built_in()
    for _, _, names in os.walk(folder):
        for name in names:
            stem = next((name[: -len(end)] for end in _SUFFIXES if name.endswith(end)), "")
            if stem:
                found.add(plain(stem))
    return sorted(found)


@function(reads=True)
def check_available(context: Context, mod: str) -> bool:
    """Return whether this kernel can load a module."""
    return plain(mod) in available(context)


def _changed(context: Context, words: List[str]) -> Set[str]:
    """Run a program and return the modules that it loaded or removed.

    Raises:
        CommandExecutionError: it is not installed, or fails.
    """
    from catena.modules.shared import programs

    before = {row["module"] for row in lsmod(context)}
    programs.need(context, words, "kmod")
    return before ^ {row["module"] for row in lsmod(context)}


@function()
def load(context: Context, mod: str, persist: bool = False) -> List[str]:
    """Load a module and return all newly loaded modules.

    Args:
        context: the host.
        mod: name of the module.
        persist: also load it at every boot; the result then contains a module that was not yet.

    Raises:
        CommandExecutionError: it can't be loaded.
        UsageError: *mod* can't be the name of a module.
    """
    name = checked(mod)
    changed = set() if plain(name) in built_in() else _changed(context, ["modprobe", "--", name])
    return sorted(changed | (_keep(context, name) if persist else set()))


@function()
def remove(context: Context, mod: str, persist: bool = False, comment: bool = True) -> List[str]:
    """Remove a module and return all removed modules.

    Args:
        context: the host.
        mod: name of the module.
        persist: also don't load it at boot.
        comment: then turn its line into a comment instead of removing it.

    Raises:
        CommandExecutionError: it can't be removed.
        UsageError: *mod* can't be the name of a module.
    """
    name = checked(mod)
    changed = set()
    if is_loaded(context, name):
        changed = _changed(context, ["modprobe", "-r", "--", name])
    return sorted(changed | (_forget(name, comment) if persist else set()))


def _keep(context: Context, name: str) -> Set[str]:
    """Add a module to those that are loaded at boot; return it if it was not among them."""
    if plain(name) in {plain(one) for one in mod_list(context, only_persist=True)}:
        return set()
    path = _MANAGED if "systemd" in context.grains else _CONFIGURED
    lines = _lines(path)
    wanted = [name if _off(line) == plain(name) else line for line in lines]
    _write(path, wanted if wanted != lines else [*lines, name])
    return {name}


def _forget(name: str, comment: bool) -> Set[str]:
    """Remove a module from those that are loaded at boot; return it if it was among them."""
    found: Set[str] = set()
    for path in (_MANAGED, _CONFIGURED):
        lines = _lines(path)
        wanted = []
        for line in lines:
            if _on(line) != plain(name):
                wanted.append(line)
            elif comment:
                wanted.append(f"#{line}")
        if wanted != lines:
            _write(path, wanted)
            found = {name}
    return found


def _on(line: str) -> str:
    """Return the module that a line loads at boot, or ""."""
    words = line.split()
    return plain(words[0]) if words and words[0][0] not in "#;" else ""


def _off(line: str) -> str:
    """Return the module of a line that `_forget` has turned into a comment, or ""."""
    words = line.lstrip("#").split()
    return plain(words[0]) if line.startswith("#") and len(words) == 1 else ""


def _lines(path: Path) -> List[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def _write(path: Path, lines: List[str]) -> None:
    from catena.modules.file.content import encode, write

    path.parent.mkdir(mode=0o755, exist_ok=True)
    write(path, encode("".join(f"{line}\n" for line in lines)), "0644")
