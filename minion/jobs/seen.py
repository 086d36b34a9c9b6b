"""The job ids that this minion is done with, so that none is run a second time.

A text file of lines `<expiry> <jid> <why>`, appended and synced. A line that a power cut tore is
skipped: nobody was promised anything. Jobs that are done are known from the daemon's log
(`job_log`) first; they are written here before they go from there.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Dict, List, Tuple

from catena.core.files import read_limited, sync_file, sync_folder, write_all, write_durable

#: How long a job id is remembered beyond the time until which its order may arrive.
MARGIN_SECONDS = 24 * 3600
#: Same, where the order has no such time.
KEEP_SECONDS = 7 * 24 * 3600
_LIMIT = 64 * 1024 * 1024
#: After how many lines it is looked at whether the file can be shorter.
_LOOK_LINES = 1000
_WHY = ("done", "cancelled")


def expiry(not_after: float, now: float) -> int:
    """Return until when a job is remembered whose order may arrive until *not_after*; 0: ever."""
    return int(max(not_after + MARGIN_SECONDS, now) if not_after else now + KEEP_SECONDS)


class SeenJobs:
    """Remembers job ids until no order of theirs can arrive any more.

    Args:
        path: the file.
        now: wall clock, seconds since the epoch.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._seen: Dict[str, Tuple[int, str]] = {}
        self._noted: List[str] = []
        self._lines = self._load(now)
        if self._lines > 2 * len(self._seen) + 100 or not path.exists():
            self._compact()

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
            # An agent that stays connected for a year must not grow a file that it can't read.
            self.expire(now)

    def note(self, jid: str, until: int) -> None:
        """Remember that *jid* is done, which the daemon's log keeps until `save`."""
        self._seen[jid] = (until, "done")
        self._noted.append(jid)

    def save(self) -> None:
        """Make durable what was noted.

        Raises:
            OSError: nothing of it is in the file.
        """
        noted = [jid for jid in self._noted if jid in self._seen]
        self._append("".join(f"{self._seen[jid][0]} {jid} done\n" for jid in noted), len(noted))
        self._noted.clear()

    def _append(self, text: str, lines: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path, flags, 0o600)
        before = os.fstat(handle).st_size
        try:
            write_all(handle, text.encode("ascii"))
            os.fdatasync(handle)
        except OSError:
            # What a full disk took in part would spoil the next line.
            os.ftruncate(handle, before)
            raise
        finally:
            os.close(handle)
        self._lines += lines

    def why(self, jid: str) -> str:
        """Return "done", "cancelled", or "" for a job that is not known here."""
        return self._seen.get(jid, (0, ""))[1]

    def __contains__(self, jid: str) -> bool:
        return jid in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def expire(self, now: float) -> None:
        """Forget what no order can bring back; the file follows when half of it is of no use."""
        for jid in [jid for jid, (expiry, _) in self._seen.items() if expiry < now]:
            del self._seen[jid]
        if self._lines > 2 * len(self._seen) + _LOOK_LINES:
            with contextlib.suppress(OSError):  # a full disk: the old file stays, and is whole
                self._compact()

    def _load(self, now: float) -> int:
        if not self._path.exists():
            return 0
        # A killed predecessor may have written lines, or the file itself, without syncing them.
        sync_file(self._path)
        sync_folder(self._path.parent)
        lines = read_limited(self._path, _LIMIT).decode("ascii", "replace").split("\n")
        for line in lines:
            parts = line.split(" ")
            if len(parts) == 3 and parts[0].isdigit() and parts[2] in _WHY:
                if int(parts[0]) >= now:
                    self._seen[parts[1]] = (int(parts[0]), parts[2])
        if lines[-1]:
            # The torn tail must not join the next line.
            self._compact()
        return len(lines)

    def _compact(self) -> None:
        text = "".join(f"{end} {jid} {why}\n" for jid, (end, why) in self._seen.items())
        write_durable(self._path, text.encode("ascii"))
        sync_folder(self._path.parent)
        self._lines = len(self._seen)
