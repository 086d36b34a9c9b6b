"""Temporary files of tests in memory.

A master syncs some thirty files and folders at its start. On a disk that other tests sync too,
the tests waited longer for that than they computed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: A file system in memory, on Linux.
FOLDER = Path("/dev/shm")
#: Bytes of free memory and of free space that a run of all tests may need.
NEEDED = 4 * 2**30
#: Tests run programs, and boot systems with devices and setuid programs.
_FORBIDDEN = os.ST_NOEXEC | os.ST_NODEV | os.ST_NOSUID


def use() -> None:
    """Make the folder in memory the one for temporary files, of child processes too.

    A TMPDIR of the caller stays, as does a folder with too little space or with restrictions.
    """
    if "TMPDIR" not in os.environ and fits(FOLDER):
        os.environ["TMPDIR"] = tempfile.tempdir = str(FOLDER)


def fits(folder: Path) -> bool:
    """Return whether *folder* can take the temporary files of all tests."""
    try:
        status = os.statvfs(folder)
        memory = Path("/proc/meminfo").read_text()
    except OSError:
        return False
    available = next(line for line in memory.splitlines() if line.startswith("MemAvailable:"))
    free = min(status.f_bavail * status.f_frsize, int(available.split()[1]) * 1024)
    return free >= NEEDED and not status.f_flag & _FORBIDDEN
