"""Run part of a test in a mount namespace of its own: what it mounts ends with it."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import pkgutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
#: Marks a test that needs the right to mount.
needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount file systems")


def _enter() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")


def apart(work: Callable[[], T]) -> T:
    """Call *work* in a child process with mounts of its own and return its value.

    Raises:
        AssertionError: *work* failed; the message has its traceback.
    """
    with tempfile.TemporaryFile() as stream:
        with warnings.catch_warnings():
            # The child runs nothing of this process's other threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _work(work, stream.fileno())
        os.waitpid(child, 0)
        stream.seek(0)
        ok, value = pickle.loads(stream.read())  # written by our own child
    assert ok, value
    found: T = value
    return found


def _work(work: Callable[[], Any], handle: int) -> None:
    try:
        try:
            _enter()
            answer: tuple[bool, Any] = (True, work())
        except BaseException:  # noqa: BLE001  # the parent raises it
            answer = (False, traceback.format_exc())
        os.write(handle, pickle.dumps(answer))
    finally:
        os._exit(0)


def inside(root: Path, work: Callable[[], T]) -> T:
    """Call *work* as `apart` does, in the Debian root *root*, with this host's loop devices.

    What *work* calls is this process's code, the programs that it runs are those of the root.
    """
    _import_all()

    def entered() -> T:
        subprocess.run(["mount", "--rbind", "/sys", root / "sys"], check=True)
        for device in Path("/dev").glob("loop[0-9]*"):
            found = device.stat()
            os.mknod(root / "dev" / device.name, found.st_mode, found.st_rdev)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root / "run"], check=True)
        # Modules that are imported late come from where they are outside.
        for place in {Path(one).resolve() for one in sys.path if Path(one).is_dir()}:
            (root / str(place).lstrip("/")).mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", place, root / str(place).lstrip("/")], check=True)
        os.chroot(root)
        os.chdir("/")
        return work()

    return apart(entered)


@cache
def _import_all() -> None:
    for name in ("catena.modules", "catena.states"):
        module = importlib.import_module(name)
        for inner in pkgutil.walk_packages(module.__path__, f"{name}."):
            importlib.import_module(inner.name)
