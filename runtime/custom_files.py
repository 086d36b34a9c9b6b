"""Synchronisation of custom files of the file roots (`_modules/*.py`, `_grains/*.py`, …)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from catena.core.context import FileClient
from catena.core.errors import CatenaError, UsageError
from catena.core.files import is_misplaced, private_folder, write_durable
from catena.core.logs import logger
from catena.core.removal import remove_entry
from catena.core.suggest import unknown
from catena.runtime.custom_code import SUMS, write_sums

log = logger(__name__)

#: Kind as saltutil.sync_<kind> has it -> folder below the file roots.
KINDS: Dict[str, str] = {
    "beacons": "_beacons",
    "clouds": "_clouds",
    "engines": "_engines",
    "executors": "_executors",
    "grains": "_grains",
    "log_handlers": "_log_handlers",
    "matchers": "_matchers",
    "modules": "_modules",
    "output": "_output",
    "proxymodules": "_proxy",
    "pillar": "_pillar",
    "renderers": "_renderers",
    "resources": "_resources",
    "returners": "_returners",
    "sdb": "_sdb",
    "serializers": "_serializers",
    "states": "_states",
    "thorium": "_thorium",
    "tops": "_tops",
    "utils": "_utils",
    "wrapper": "_wrapper",
}
#: Kind -> its name in file names, where that differs.
_LABELS = {"proxymodules": "proxy"}
SIZE_LIMIT = 16 * 1024 * 1024


class CustomFileTooLargeError(CatenaError):
    """A file is too large to be custom code."""


def sync_files(
    files: FileClient,
    extmods: Path,
    kind: str,
    saltenv: str,
    only: Optional[Sequence[str]] = None,
    never: Sequence[str] = (),
) -> List[str]:
    """Make `<extmods>/<kind>/` equal to the file roots; return new and changed names, sorted.

    Args:
        files: the file server.
        extmods: folder of all custom files of this host.
        kind: a key of KINDS.
        saltenv: environment; of several separated by commas the last one has precedence, as in
            Salt.
        only: names of the files to fetch, without extension; shell patterns; None: all.
        never: names of files to leave out.

    Returns:
        Names such as "modules.vsphere"; removed files are not listed.

    Raises:
        UsageError: no such kind.
    """
    if kind not in KINDS:
        raise UsageError(unknown("kind of custom file", kind, KINDS))
    found = _wanted(files, KINDS[kind], saltenv.split(","))
    wanted = {name: data for name, data in found.items() if _is_chosen(name, only, never)}
    folder = extmods / kind
    if not wanted and not folder.is_dir():
        return []
    private_folder(extmods)
    private_folder(folder)
    changed = []
    for name, data in sorted(wanted.items()):
        target = folder / name
        if target.is_file() and target.read_bytes() == data:
            continue
        _write(target, data)
        changed.append(f"{_LABELS.get(kind, kind)}.{name.rpartition('.')[0].replace('/', '.')}")
    _without_stale(folder, {**wanted, SUMS: b""})
    write_sums(folder, wanted)
    return changed


def _write(target: Path, data: bytes) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_misplaced(target):
        remove_entry(target)
    write_durable(target, data)


def _without_stale(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """Remove files that are not wanted, and folders that are then empty."""
    for stale in sorted(folder.rglob("*"), reverse=True):
        name = stale.relative_to(folder).as_posix()
        if stale.is_dir() and not stale.is_symlink():
            if not any(stale.iterdir()):
                stale.rmdir()
        elif name not in wanted:
            stale.unlink()


def _is_chosen(path: str, only: Optional[Sequence[str]], never: Sequence[str]) -> bool:
    name = path.partition("/")[0]
    name = name[: -len(".py")] if name.endswith(".py") else name
    if only is not None and not any(fnmatchcase(name, one) for one in only):
        return False
    return not any(fnmatchcase(name, one) for one in never)


def _wanted(files: FileClient, prefix: str, environments: List[str]) -> Dict[str, bytes]:
    wanted: Dict[str, bytes] = {}
    for saltenv in environments:
        for entry in files.entries(saltenv, prefix + "/"):
            name = entry.path[len(prefix) + 1 :]
            if not name.endswith(".py") or ".." in name.split("/"):
                continue
            if entry.size > SIZE_LIMIT:
                raise CustomFileTooLargeError(f"salt://{entry.path}: {entry.size} bytes")
            local = files.fetch(entry.path, saltenv)
            if local is not None:
                wanted[name] = local.read_bytes()
    return wanted
