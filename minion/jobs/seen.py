"""The ids of ended jobs, so that no job runs a second time.

A text file of lines `<expiry> <jid> <why>`, appended and synced. Each append ends with a line
`#<count> <crc32>` over its own lines, which older agents skip. A last line without its end was
torn by a power failure and is skipped, since nothing was confirmed from it. Anything else that
does not match is damage. Ended jobs are first recorded in the daemon's log (`log`); they are
written here before the log drops them.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

from catena.core.files import (
    is_misplaced,
    read_limited,
    size_of,
    sync_file,
    sync_folder,
    write_all,
    write_durable,
)
from catena.core.patterns import lazy_pattern

#: Seconds for which a jid is remembered after its order can no longer arrive.
MARGIN_SECONDS = 24 * 3600
#: The same for an order without such a time.
KEEP_SECONDS = 7 * 24 * 3600
_LIMIT = 64 * 1024 * 1024
#: Number of lines after which the file is checked for expired ones.
_LOOK_LINES = 1000
_LOST = "other ended jobs: the master has their returns and does not send them again"
#: Reasons for refusing an order whose job was seen before. A master that has the return of an
#: ended job ignores the refusal; one with a restored store would otherwise wait for a return.
REFUSALS = {
    "done": "a job with this id has ended here before, and a master has stored its return",
    "cancelled": "it was cancelled before it arrived",
}
_WHY = tuple(REFUSALS)
_CHECK = lazy_pattern(r"#([0-9]{1,9}) ([0-9a-f]{8})\Z")
#: Seconds since the epoch.
_UNTIL = lazy_pattern(r"[0-9]{1,12}\Z")
#: Maximum bytes of a torn append: less than a line, or zeros.
_TORN_BYTES = 80


def expiry(not_after: float, now: float) -> int:
    """Return until when a job must be remembered whose order may arrive until *not_after*."""
    return int(max(not_after + MARGIN_SECONDS, now) if not_after else now + KEEP_SECONDS)


class SeenJobs:
    """Remembers job ids until their orders can no longer arrive.

    Args:
        path: the file.
        now: wall clock, seconds since the epoch.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._seen: Dict[str, Tuple[int, str]] = {}
        self._noted: List[str] = []
        #: Marks that the file has checksums; without it an empty file is no damage.
        self._checked = path.with_name(f"{path.name}.checked")
        self._lines = self._load(now)
        if self._lines > 2 * len(self._seen) + 100 or not self._checked.exists():
            with contextlib.suppress(OSError):  # a full disk: the old file stays intact
                self._compact()
                self._checked.touch(mode=0o600)

    def add(
        self,
        jid: str,
        not_after: float,
        now: float,
        why: str = "done",
    ) -> None:
        """Remember *jid*, durably.

        Raises:
            OSError: it could not be written; nothing of it is in the file.
        """
        until = expiry(not_after, now)
        self._append(f"{until} {jid} {why}\n", 1)
        self._seen[jid] = (until, why)
        if self._lines % _LOOK_LINES == 0:
            # Keep the file of an agent that stays connected for a year below its size limit.
            self.expire(now)

    def note(self, jid: str, until: int) -> None:
        """Remember that *jid* is done; the daemon's log keeps this until `save`."""
        self._seen[jid] = (until, "done")
        self._noted.append(jid)

    def save(self) -> None:
        """Make all noted jobs durable.

        Raises:
            OSError: none of them is in the file.
        """
        noted = [jid for jid in self._noted if jid in self._seen]
        self._append("".join(f"{self._seen[jid][0]} {jid} done\n" for jid in noted), len(noted))
        self._noted.clear()

    def _append(self, text: str, lines: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path, flags, 0o600)
        before = os.fstat(handle).st_size
        try:
            write_all(handle, _checked(text, lines))
            os.fdatasync(handle)
        except OSError:
            # Truncate a line that a full disk cut short; it would corrupt the next one.
            os.ftruncate(handle, before)
            raise
        finally:
            os.close(handle)
        self._lines += lines

    def why(self, jid: str) -> str:
        """Return "done", "cancelled", or "" for an unknown job."""
        return self._seen.get(jid, (0, ""))[1]

    def __contains__(self, jid: str) -> bool:
        return jid in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def expire(self, now: float) -> None:
        """Forget expired jobs; rewrite the file when half of it has expired."""
        for jid in [jid for jid, (expiry, _) in self._seen.items() if expiry < now]:
            del self._seen[jid]
        if self._lines > 2 * len(self._seen) + _LOOK_LINES:
            with contextlib.suppress(OSError):  # a full disk: the old file stays intact
                self._compact()

    def _load(self, now: float) -> int:
        if is_misplaced(self._path) or size_of(self._path) > _LIMIT:
            from catena.runtime import damage

            damage.set_aside(self._path.parent, self._path, _LOST)
            return 0
        if not self._path.exists():
            if self._checked.exists():
                self._report(1, b"")
                with contextlib.suppress(OSError):  # a full disk: it is reported once more
                    self._compact()
            return 0
        # A killed predecessor may have written lines, or the file itself, without syncing them.
        sync_file(self._path)
        sync_folder(self._path.parent)
        data = read_limited(self._path, _LIMIT)
        found = _read(data)
        for jid, (until, why) in found.seen.items():
            if until >= now:
                self._seen[jid] = (until, why)
        # A file with checksums was written as a whole, so one without any line end was replaced.
        bad = found.bad or int(b"\n" not in data and self._checked.exists())
        if bad:
            self._report(bad, data)
        if bad or found.is_torn:
            # A torn tail must not join the next line.
            with contextlib.suppress(OSError):  # a full disk: no line can be appended either
                self._compact()
        return found.lines

    def _report(self, bad: int, data: bytes) -> None:
        from catena.runtime import damage

        what = f"{bad} of its lines are damaged" if data else "it is empty or missing"
        found = damage.Damage(str(self._path), what, f"{len(self._seen)} job ids", _LOST)
        damage.report(self._path.parent, found, data)

    def _compact(self) -> None:
        text = "".join(f"{end} {jid} {why}\n" for jid, (end, why) in self._seen.items())
        write_durable(self._path, _checked(text, len(self._seen)))
        sync_folder(self._path.parent)
        self._lines = len(self._seen)


class _Found(NamedTuple):
    """The parsed content of the file."""

    seen: Dict[str, Tuple[int, str]]
    lines: int
    #: Number of invalid lines and of checksums that do not match.
    bad: int
    is_torn: bool


def _checked(text: str, lines: int) -> bytes:
    data = text.encode("ascii")
    return data + b"#%d %08x\n" % (lines, zlib.crc32(data))


def _read(data: bytes) -> _Found:
    *lines, tail = data.decode("ascii", "replace").split("\n")
    seen: Dict[str, Tuple[int, str]] = {}
    unchecked: List[str] = []
    bad = 0
    for line in lines:
        parts, check = line.split(" "), _CHECK.match(line)
        if check:
            count = int(check[1])
            text = "".join(f"{one}\n" for one in unchecked[len(unchecked) - count :] if count)
            fits = count <= len(unchecked) and zlib.crc32(text.encode()) == int(check[2], 16)
            bad += not fits
            unchecked.clear()
        elif len(parts) == 3 and _UNTIL.match(parts[0]) and parts[2] in _WHY:
            seen[parts[1]] = (int(parts[0]), parts[2])
            unchecked.append(line)
        else:
            bad += 1
    bad += len(tail) > _TORN_BYTES
    return _Found(seen, sum(line[:1] != "#" for line in lines), bad, bool(tail))
