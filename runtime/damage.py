"""Damaged files of an agent: kept aside, recorded, and reported once.

    cache_dir/damaged/<stamp>-<name>.bytes     the damaged bytes, for a person
    cache_dir/damaged/<stamp>-<name>.json      what was saved and what was lost (`Damage`)
    cache_dir/damaged/<stamp>-<name>.told      the same, once the agent has notified the master

Any process that finds damage (the agent, its launcher, a job) calls `report`. The agent reads the
folder, logs each report and sends an event; `catena doctor` lists them until a person removes
them. The newest LIMIT reports are kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from catena.core import frozen, records
from catena.core.digest import hex_of
from catena.core.errors import CatenaError
from catena.core.files import private_folder, read_limited, rename_durable, write_durable
from catena.core.frozen import dataclass, field

FOLDER = "damaged"
#: Maximum number of reports, with the damaged bytes, that are kept.
LIMIT = 20
#: Maximum bytes of a file that is kept aside.
ASIDE_BYTES = 64 * 1024 * 1024
_OPEN, _TOLD = ".json", ".told"
#: Suffix of the damaged bytes, so that a damaged `.json` is not taken for a report.
_BYTES = ".bytes"
_RECORD_BYTES = 64 * 1024
_KINDS: Tuple[Tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISREG, "a file that cannot be used"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


@dataclass(frozen=True)
class Damage:
    """One damaged file."""

    #: Path of the file.
    path: str
    #: What is wrong with it.
    what: str
    #: What could still be read; "" for nothing.
    saved: str
    #: What is lost, or may be.
    lost: str
    #: Path of the damaged bytes; "" if they stayed in place or the disk was full.
    kept: str = ""
    #: When it was found, seconds since the epoch.
    at: float = 0.0
    #: SHA-256 of the damaged bytes if known, so that the same damage is reported once.
    sha256: str = ""
    #: Inode and modification time of the damaged file, so that new damage with the same text is
    #: reported; "" if there is no file.
    version: str = field(default="", metadata=records.LATER)

    def text(self) -> str:
        """Return the report as one line for a log."""
        saved = f"; saved: {self.saved}" if self.saved else ""
        kept = f"; kept as {self.kept}" if self.kept else ""
        return f"{self.path} is damaged: {self.what}{saved}; lost: {self.lost}{kept}"


def report(cache_dir: Path, damage: Damage, data: Optional[bytes] = None) -> bool:
    """Record *damage*; return whether the record is on disk.

    Nothing is raised: the caller must go on, and a full disk must not prevent an agent's start.
    The same damage with the same text is not reported again while the file is unchanged.

    Args:
        cache_dir: the agent's private folder.
        damage: what was found; `at`, `version` and, with *data*, `kept` are set here.
        data: the damaged bytes, to be kept aside; None if the file stays in place.
    """
    try:
        folder = private_folder(private_folder(cache_dir) / FOLDER)
        version = _version_of(damage.kept or damage.path)
        damage = frozen.replace(damage, sha256=hex_of(data) if data else "", version=version)
        if any(_same(known, damage) for _, known in _reports(folder)):
            return True
        name = f"{time.time_ns():020d}-{Path(damage.path).name[:80]}"
        if data is not None:
            with contextlib.suppress(OSError):  # a full disk: the report matters more
                write_durable(folder / f"{name}{_BYTES}", data)
                damage = frozen.replace(damage, kept=str(folder / f"{name}{_BYTES}"))
        damage = frozen.replace(damage, at=time.time())
        body = json.dumps(records.encode(damage)).encode("ascii")
        write_durable(folder / f"{name}{_OPEN}", body)
        _forget_old(folder)
    except (OSError, CatenaError):
        return False
    return True


def set_aside(cache_dir: Path, path: Path, lost: str, beside: Optional[Path] = None) -> Path:
    """Rename what is in the place of a file, durably; report and return its new path.

    Args:
        cache_dir: the agent's private folder.
        path: a folder, link, pipe or device, or a file that cannot be read.
        lost: what is lost with the file, or may be.
        beside: path from which the new path is made by a suffix; None: *path*.

    Raises:
        CannotRemoveError: it cannot be renamed; the message gives the reason and the remedy.
    """
    # Imported here: nearly every agent starts without damage, and `shutil` takes time.
    from catena.core.removal import refusal

    near = beside or path
    kept = near.with_name(f"{near.name[:80]}.damaged-{time.time_ns()}")
    what = f"{kind_of(path.lstat().st_mode)} is in its place"
    try:
        rename_durable(path, kept)
    except OSError as error:
        raise refusal("move", path, error) from error
    report(cache_dir, Damage(str(path), what, "", lost, kept=str(kept)))
    return kept


def untold(cache_dir: Path) -> List[Tuple[Path, Damage]]:
    """Return the reports that were not sent to the master, oldest first."""
    return [(path, found) for path, found in _reports(cache_dir / FOLDER) if path.suffix == _OPEN]


def told(path: Path) -> None:
    """Record that a report was stored for the master.

    Raises:
        OSError: it will be sent again.
    """
    rename_durable(path, path.with_suffix(_TOLD))


def known(cache_dir: Path) -> List[Damage]:
    """Return all kept reports, oldest first."""
    return [found for _, found in _reports(cache_dir / FOLDER)]


def _reports(folder: Path) -> List[Tuple[Path, Damage]]:
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix not in (_OPEN, _TOLD) or path.name.startswith("."):
            continue
        try:
            data = json.loads(read_limited(path, _RECORD_BYTES))
            found.append((path, records.decode(Damage, data)))
        except (OSError, ValueError, CatenaError) as error:
            what = "this report of damage cannot be read"
            found.append((path, Damage(str(path), what, "", f"what it said ({error})")))
    return found


def _same(first: Damage, second: Damage) -> bool:
    if not (second.sha256 or second.version):
        # A missing file. Whoever reports it makes a new one.
        return False
    known = (first.path, first.what, first.lost, first.sha256, first.version)
    return known == (second.path, second.what, second.lost, second.sha256, second.version)


def _version_of(path: str) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return ""
    return f"{found.st_ino}-{found.st_mtime_ns}"


def kind_of(mode: int) -> str:
    """Return what *mode*, the `st_mode` of a path, describes, such as "a folder"."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")


def _forget_old(folder: Path) -> None:
    for path, _ in _reports(folder)[:-LIMIT]:
        path.unlink()
        path.with_suffix(_BYTES).unlink(missing_ok=True)


def stamp(path: Path) -> str:
    """Return the id of a report's event, which is the same however often it is sent."""
    return f"damage-{os.fspath(path.name).partition('-')[0]}"
