"""Actions of a transactional system: each changes a snapshot, which the next boot uses.

The root of a transactional system is read-only. `transactional-update run` creates a snapshot of
the root, runs a program in it and keeps the snapshot only if the program succeeds. Here the
program is a small helper: it passes its root and mount namespace to the job and waits for a
verdict. A child of the job enters both and applies the action. The action therefore can use
everything of its job: the master's files, the pillar and loaded modules. The journal and the
resume file stay outside the snapshot.

`--continue` builds each snapshot on the one that the next boot would use, so an action sees the
changes of the actions before it.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
from typing import IO, Callable, Optional, Tuple

from catena.core.errors import CommandExecutionError
from catena.states.compiler.model import Row
from catena.states.compiler.parallel import Child, end_all

PROGRAM = "transactional-update"
#: The same options as Salt's transactional_update module passes.
OPTIONS = ("--non-interactive", "--drop-if-no-change", "--no-selfupdate", "--continue", "run")
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
#: Flag of setns(2) for a mount namespace.
_CLONE_NEWNS = 0x00020000
#: Interval of the checks whether the program has ended or the job was cancelled, seconds.
_LOOK_SECONDS = 0.5
#: Maximum number of characters of the program's output in an error; the last ones are shown.
_SHOWN = 2000
_KEEP = b"+"
#: Source of the helper that runs in the snapshot. Unless it receives `_KEEP`, it exits with 1,
#: which drops the snapshot; so it does if the job at the other end of the socket was killed.
_HELPER = """\
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect("\\0" + sys.argv[1])
places = [os.open("/", os.O_RDONLY), os.open("/proc/self/ns/mnt", os.O_RDONLY)]
socket.send_fds(line, [b"."], places)
sys.exit(0 if line.recv(1) == b"+" else 1)
"""


def perform(work: Callable[[], Row], cancelled: Callable[[], bool]) -> Row:
    """Run *work* in a child process in a new snapshot; return its row.

    The snapshot is kept if the row's result is not False.

    Args:
        work: changes the host; runs in a forked copy of this process.
        cancelled: polled while *work* runs; returning True ends the work.

    Raises:
        CommandExecutionError: the snapshot could not be created or completed, or the child ended
            without a row; no change was kept.
    """
    with tempfile.TemporaryFile() as output, _listen() as listener:
        program = _start(listener, output)
        try:
            row, fault = _inside(program, listener, work, cancelled)
        finally:
            # Closing the socket makes a helper that still waits exit and drop the snapshot.
            listener.close()
            code = program.wait()
        if row is None:
            raise CommandExecutionError(f"{fault}{_tail(output)}")
        if row.get("result") is not False and code != 0:
            raise CommandExecutionError(
                f"{PROGRAM} could not keep the snapshot (exit code {code}); nothing of this "
                f"action will be there after the next boot{_tail(output)}"
            )
        return row


def _listen() -> socket.socket:
    """Return a listening socket in the abstract namespace, reachable from every root folder."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0catena-{secrets.token_hex(16)}")
    listener.listen(4)
    listener.settimeout(_LOOK_SECONDS)
    return listener


def _start(listener: socket.socket, output: IO[bytes]) -> subprocess.Popen[bytes]:
    import shutil

    program = shutil.which(PROGRAM, path=_PATH)
    if program is None:
        raise CommandExecutionError(
            f"the grain `transactional` is set, but {PROGRAM} is not on this host; if its root is "
            "writable, set `grains: {transactional: false}` in the minion's configuration"
        )
    name = listener.getsockname()[1:].decode("ascii")
    argv = [program, *OPTIONS, sys.executable, "-I", "-S", "-c", _HELPER, name]
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/"
    )


def _inside(
    program: subprocess.Popen[bytes],
    listener: socket.socket,
    work: Callable[[], Row],
    cancelled: Callable[[], bool],
) -> Tuple[Optional[Row], str]:
    """Run *work* in the snapshot and send the helper its verdict; return (row or None, reason)."""
    line = _helper(program, listener, cancelled)
    if line is None:
        return None, "Not done: the job was cancelled" if cancelled() else (
            f"Not done: {PROGRAM} made no snapshot (exit code {program.wait()})"
        )
    with line:
        _, places, _, _ = socket.recv_fds(line, 1, 2)
        if len(places) != 2:
            return None, f"Not done: the snapshot of {PROGRAM} could not be opened"
        root, mounts = places
        try:
            child = Child(lambda: _entered(root, mounts, work))
        finally:
            os.close(root)
            os.close(mounts)
        while not child.speaks(_LOOK_SECONDS):
            if cancelled():
                end_all((child,))
                return None, "Cancelled; nothing of this action was kept"
        row = child.row()
        if row is not None and row.get("result") is not False:
            line.sendall(_KEEP)
        fault = child.fault or "its process ended without a result"
    return row, "" if row is not None else f"Nothing of this action was kept: {fault}"


def _helper(
    program: subprocess.Popen[bytes], listener: socket.socket, cancelled: Callable[[], bool]
) -> Optional[socket.socket]:
    """Return the connection of the helper; None if the program ended first or was cancelled."""
    while program.poll() is None:
        try:
            line, _ = listener.accept()
        except socket.timeout:
            if cancelled():
                program.terminate()
                return None
            continue
        line.settimeout(None)
        if _is_ours(line):
            return line
        line.close()
    return None


def _is_ours(line: socket.socket) -> bool:
    """Return whether the peer runs as this user; any local user can connect to the socket."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


def _entered(root: int, mounts: int, work: Callable[[], Row]) -> Row:
    """Do *work* in the helper's root; this process can't leave that root again."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(mounts, _CLONE_NEWNS):
        raise CommandExecutionError(
            f"the snapshot could not be entered: {os.strerror(ctypes.get_errno())}"
        )
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")
    return work()


def _tail(output: IO[bytes]) -> str:
    """Return the end of the program's output, formatted for an error."""
    output.seek(0)
    text = output.read().decode("utf-8", "replace").strip()[-_SHOWN:]
    return f":\n{text}" if text else ""
