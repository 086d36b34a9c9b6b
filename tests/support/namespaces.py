"""A network namespace of a test's own: packet filters and interfaces that end with the test."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.debian_roots import require

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_OWN = Path("/proc/thread-self/ns/net")


@contextmanager
def own_network(*programs: str) -> Iterator[None]:
    """Move this thread, and the programs that it starts, into an empty network namespace.

    Args:
        programs: that the test runs there; it is skipped if one is missing.
    """
    missing = [name for name in programs if shutil.which(name, path="/usr/sbin:/usr/bin") is None]
    if missing:
        require(f"needs {', '.join(missing)}")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open(_OWN, os.O_RDONLY)
    try:
        if libc.unshare(_NEW_NETWORK):
            require(f"needs the right to make a network namespace: errno {ctypes.get_errno()}")
        try:
            yield
        finally:
            if libc.setns(before, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "cannot leave the network namespace")
    finally:
        os.close(before)


def printed(*words: str) -> str:
    """Return what a program prints; it has to succeed."""
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
