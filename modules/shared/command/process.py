"""Run one command with its own session, deadline, output limit and user.

This module logs neither command lines nor input nor environment, which may contain secrets.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from typing import Dict, List, Mapping, Optional, Tuple

from catena.core.context import OutputTap
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, field
from catena.modules.shared.command import tree

#: Maximum bytes kept of each stream; more is read and dropped, and the result reports that.
OUTPUT_LIMIT = 8 * 1024 * 1024
#: Seconds without output after which reading ends once the command has ended. A daemon that the
#: command left behind may hold the pipes open forever.
SILENCE_SECONDS = 5.0
_CHUNK = 65536


@dataclass(frozen=True)
class Identity:
    """The user that a command runs as."""

    name: str
    uid: int
    gid: int
    groups: Tuple[int, ...]
    home: str
    shell: str


@dataclass(frozen=True)
class Command:
    """A command ready for execve(2); no shell is added."""

    argv: Tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: Optional[bytes] = None
    identity: Optional[Identity] = None
    #: None: inherited.
    umask: Optional[int] = None
    #: Seconds until the process tree is ended; None: never.
    timeout: Optional[float] = None
    output_limit: int = OUTPUT_LIMIT
    #: Use one pipe for both streams, which preserves the order of writing.
    merge_stderr: bool = False
    #: Do not wait for the command, and read no output.
    background: bool = False


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    pid: int
    #: Exit code; the negative signal number if a signal ended it.
    retcode: int
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    #: Number of bytes dropped at the output limit.
    dropped: int = 0


class StartError(CommandExecutionError):
    """The command could not be started."""


@dataclass
class _Streams:
    """The pipes of a running command and the data read from them."""

    limit: int
    kept: Dict[str, bytearray] = field(default_factory=dict)
    dropped: int = 0

    def take(self, name: str, data: bytes) -> None:
        store = self.kept.setdefault(name, bytearray())
        room = max(0, self.limit - len(store))
        store += data[:room]
        self.dropped += max(0, len(data) - room)


def _start(command: Command) -> subprocess.Popen[bytes]:
    identity = command.identity
    sink = subprocess.DEVNULL if command.background else subprocess.PIPE
    more: Dict[str, object] = {}
    if identity is not None:
        more = {
            "user": identity.uid,
            "group": identity.gid,
            "extra_groups": list(identity.groups),
        }
    if command.umask is not None:
        more["umask"] = command.umask
    try:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            list(command.argv),
            cwd=command.cwd,
            env=dict(command.env),
            stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT if command.merge_stderr else sink,
            start_new_session=True,
            close_fds=True,
            **more,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise StartError(f"Unable to run {command.argv[0]!r}: {reason}") from problem


def _feed(
    selector: selectors.BaseSelector, process: subprocess.Popen[bytes], left: bytes
) -> bytes:
    """Write what the pipe accepts of *left*; close it after the last byte. Return the rest."""
    assert process.stdin is not None
    try:
        left = left[os.write(process.stdin.fileno(), left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        left = b""  # the command does not read its input; its exit code tells why
    if not left:
        selector.unregister(process.stdin)
        process.stdin.close()
    return left


def _register(
    selector: selectors.BaseSelector, process: subprocess.Popen[bytes], command: Command
) -> None:
    for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, name)
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
        if command.stdin:
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        else:
            process.stdin.close()


def _pump(
    process: subprocess.Popen[bytes], command: Command, streams: _Streams, tap: Optional[OutputTap]
) -> bool:
    """Transfer data until the command has ended and its pipes are closed or silent.

    Returns:
        False if the deadline was reached first.
    """
    limit = None if command.timeout is None else time.monotonic() + command.timeout
    left, silent_since = command.stdin or b"", time.monotonic()
    # poll(2) needs no kernel object, unlike epoll, and there are at most three pipes.
    with selectors.PollSelector() as selector:
        _register(selector, process, command)
        while selector.get_map():
            now = time.monotonic()
            if limit is not None and now >= limit:
                return False
            if process.poll() is not None and now - silent_since > SILENCE_SECONDS:
                return True
            longest = 1.0
            if tap is not None:
                tap.tick()
                longest = 0.5
            wait = longest if limit is None else min(longest, limit - now)
            for key, _ in selector.select(wait):
                silent_since = time.monotonic()
                if key.data == "stdin":
                    left = _feed(selector, process, left)
                    continue
                data = os.read(key.fd, _CHUNK)
                if data:
                    streams.take(key.data, data)
                    if tap is not None:
                        tap.take(key.data, data)
                else:
                    selector.unregister(key.fileobj)
    return _wait(process, limit)


def _wait(process: subprocess.Popen[bytes], limit: Optional[float]) -> bool:
    """Wait for the end of a command that closed its streams; return False at the deadline."""
    try:
        process.wait(None if limit is None else max(0.0, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def run(command: Command, tap: Optional[OutputTap] = None) -> Finished:
    """Run *command* to its end or its deadline, and return the result.

    Any exception during the wait, also from a signal handler, ends the command's process tree.

    Args:
        command: what to run.
        tap: receives its output while it runs.

    Raises:
        StartError: it could not be started.
    """
    process = _start(command)
    if command.background:
        pid = process.pid
        process.returncode = 0  # not waited for; init reaps it after this process ends
        return Finished(pid, 0)
    streams = _Streams(command.output_limit)
    try:
        in_time = _pump(process, command, streams, tap)
        if not in_time:
            _end(process)
    except BaseException:
        _end(process)
        raise
    finally:
        _close(process)
        if tap is not None:
            tap.close()
    return Finished(
        pid=process.pid,
        retcode=process.wait() if in_time else -9,
        stdout=bytes(streams.kept.get("stdout", b"")),
        stderr=bytes(streams.kept.get("stderr", b"")),
        timed_out=not in_time,
        dropped=streams.dropped,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    tree.end(process.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(tree.GRACE_SECONDS)


def argv_of(words: List[str]) -> Tuple[str, ...]:
    """Return *words* as an argument vector.

    Raises:
        StartError: it is empty, or a word holds a NUL byte.
    """
    if not words or not words[0]:
        raise StartError("No command was given")
    if any("\0" in word for word in words):
        raise StartError("A command cannot hold a NUL byte")
    return tuple(words)
