"""Run part of a test in a mount namespace of its own: what it mounts ends with it."""

from __future__ import annotations

import ctypes
import os
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable
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
