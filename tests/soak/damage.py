"""Damage by a person, a disk or another program to files of the daemons.

Each kind changes files of one host, or of the master, while everything runs. What was damaged is
noted, so that the verdict can ask that the product names it.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.failpoints.rig import Rig

RESUME = "etc/catena/minion.d/_mgractionchains.conf"
CACHE = "var/cache/catena/minion"


class Damage:
    """Damages files of a fleet.

    Args:
        fleet: running, supervised.
        choice: of everything that is random.
    """

    def __init__(self, fleet: Rig, choice: random.Random) -> None:
        self._fleet, self._random = fleet, choice
        self._backup = fleet.folder / "backup.db"
        #: Whether the store was replaced by an older one: chains made since are unknown.
        self.restored = 0

    def kinds(self) -> dict[Callable[[str], str], int]:
        """Return the kinds with their weights; each takes a host's name and says what it did.

        A restore forgets the chains made since the backup, so it is rare: there would be little
        left to judge.
        """
        return {
            self.tamper_resume_file: 4,
            self.block_resume_file: 3,
            self.delete_chunk: 3,
            self.tear_journal: 4,
            self.flip_bit: 4,
            self.restore_store: 1,
        }

    def tamper_resume_file(self, name: str) -> str:
        """Change one byte of a resume file that is there."""
        for path in self._found(name, f"{RESUME}*"):
            return self._flip(path)
        return ""

    def block_resume_file(self, name: str) -> str:
        """Put a folder with a file in it where the resume file belongs."""
        path = self._fleet.home(name) / RESUME
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.mkdir(parents=True)
            (path / "somebody's").write_text("file")
            return f"a folder is at {RESUME}"
        return ""

    def delete_chunk(self, name: str) -> str:
        """Remove one file of a chain that is on a host."""
        found = [path for path in self._found(name, f"{CACHE}/chains/*/*") if path.is_file()]
        if not found:
            return ""
        path = self._random.choice(found)
        with contextlib.suppress(OSError):
            path.unlink()
            return f"deleted {path.parent.name}/{path.name}"
        return ""

    def tear_journal(self, name: str) -> str:
        """Cut the tail of a journal or log of a host."""
        found = self._logs(name)
        if not found:
            return ""
        path = self._random.choice(found)
        with contextlib.suppress(OSError), path.open("r+b") as file:
            size = path.stat().st_size
            # A torn write: only the last record is incomplete. Whole records that were durable
            # and are gone without a trace can't be told from records that never were.
            cut = self._random.randint(1, 12)
            file.truncate(max(0, size - cut))
            return f"cut {cut} bytes off {path.parent.name}/{path.name}"
        return ""

    def flip_bit(self, name: str) -> str:
        """Flip one bit of a journal or log of a host."""
        found = [path for path in self._logs(name) if path.stat().st_size]
        return self._flip(self._random.choice(found)) if found else ""

    def restore_store(self, _name: str) -> str:
        """Go back to the last backup of the store, or make one."""
        if not self._backup.exists() or self._random.random() < 0.5:
            self._backup.unlink(missing_ok=True)
            done = self._fleet.catena("store", "backup", str(self._backup), check=False)
            return "" if done.returncode else "backed the store up"
        with self._fleet.without_master():
            done = self._fleet.catena("store", "restore", str(self._backup), check=False)
        self._backup.unlink()
        self.restored += 1
        return f"restored the store: exit {done.returncode}: {done.stderr.strip()[-300:]}"

    def heal(self) -> list[str]:
        """Remove what only a person can remove; return the cures that did not work."""
        wrong = []
        for name in self._fleet.minions:
            path = self._fleet.home(name) / RESUME
            if not path.is_dir():
                continue
            self._fleet.catena("run", name, "mgractionchains.clean", "-t", "60", check=False)
            if path.is_dir():
                wrong.append(f"{name}: mgractionchains.clean left the folder at {RESUME}")
                shutil.rmtree(path, ignore_errors=True)
        return wrong

    def _found(self, name: str, pattern: str) -> list[Path]:
        with contextlib.suppress(OSError):
            return sorted(self._fleet.home(name).glob(pattern))
        return []

    def _logs(self, name: str) -> list[Path]:
        patterns = (f"{CACHE}/chains/*/journal*", f"{CACHE}/jobs.log", f"{CACHE}/seen")
        return [path for pattern in patterns for path in self._found(name, pattern)]

    def _flip(self, path: Path) -> str:
        with contextlib.suppress(OSError), path.open("r+b") as file:
            data = file.read()
            if data:
                at = self._random.randrange(len(data))
                file.seek(at)
                file.write(bytes([data[at] ^ 1 << self._random.randrange(8)]))
                return f"flipped a bit of {path.parent.name}/{path.name}"
        return ""


def doctor(fleet: Rig) -> str:
    """Return what `catena doctor` says on the master's host."""
    done = fleet.catena("doctor", "master", check=False)
    return done.stdout + done.stderr


def job_counts(fleet: Rig) -> dict[str, int]:
    """Return how many jobs of each function the store has."""
    path = fleet.folder / "master/var/lib/catena/master/master.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        return dict(store.execute("select fun, count(*) from job group by fun"))
