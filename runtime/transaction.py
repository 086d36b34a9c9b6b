"""Actions of a transactional system: each changes a snapshot, which the next boot uses.

Such a system's root is read-only. `transactional-update run` makes a snapshot of the root, runs a
program in it and keeps the snapshot only if the program succeeds. The program here is a small
helper that hands its root and mount namespace to the job and waits for a verdict; a child of the
job enters both and applies the action. So the action has all that its job has (the master's files,
the pillar, what was loaded), and the journal and the resume file stay outside the snapshot.

`--continue` builds each snapshot on the one that the next boot would use: an action sees what the
actions before it did.
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
#: The options that Salt's transactional_update module gives, too.
OPTIONS = ("--non-interactive", "--drop-if-no-change", "--no-selfupdate", "--continue", "run")
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
#: setns(2): a mount namespace.
_CLONE_NEWNS = 0x00020000
#: Pause between two looks at whether the program has ended or the job was cancelled, seconds.
_LOOK_SECONDS = 0.5
#: Of the program's output, the last characters are shown in an error.
_SHOWN = 2000
_KEEP = b"+"
#: Runs in the snapshot. Fails, so that the snapshot is dropped, unless it is told to succeed: also
#: when the job that holds the other end was killed.
_HELPER = """\
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect("\\0" + sys.argv[1])
places = [os.open("/", os.O_RDONLY), os.open("/proc/self/ns/mnt", os.O_RDONLY)]
socket.send_fds(line, [b"."], places)
sys.exit(0 if line.recv(1) == b"+" else 1)
"""


def perform(work: Callable[[], Row], cancelled: Callable[[], bool]) -> Row:
    """Return the row of *work*, done by a child process in a new snapshot.

    The snapshot is kept if the row's result is not False.

    Args:
        work: what changes the host; runs in a copy of this process.
        cancelled: asked while it runs; ends it.

    Raises:
        CommandExecutionError: there is no snapshot, it could not be completed, or the child ended
            without a row; nothing was kept.
    """
    with tempfile.TemporaryFile() as output, _listen() as listener:
        program = _start(listener, output)
        try:
            row, fault = _inside(program, listener, work, cancelled)
        finally:
            # A helper that still waits learns that there is no verdict: the snapshot is dropped.
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
    """Return a listening socket that is reached from every root: its name is in no file system."""
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
    """Return the row of *work*, or None and why there is none; give the helper its verdict."""
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
    """Return the connection of the helper; None where the program ended before there was one."""
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
    """Return whether our own user is at the other end: anybody may connect to the name."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


def _entered(root: int, mounts: int, work: Callable[[], Row]) -> Row:
    """Do *work* in the helper's root; this process never comes back."""
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
    """Return the end of what the program printed, for an error."""
    output.seek(0)
    text = output.read().decode("utf-8", "replace").strip()[-_SHOWN:]
    return f":\n{text}" if text else ""
