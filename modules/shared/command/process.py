"""Runs one command: own session, deadline, output limit, another user. No policy, no logging.

Nothing here writes a command line, its input or its environment anywhere: they may hold secrets.
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

#: Kept of each stream; what comes after it is read and dropped, and the outcome says so.
OUTPUT_LIMIT = 8 * 1024 * 1024
#: A daemon that the command left behind may hold our pipes open for ever; after the command
#: itself has ended, this many silent seconds end the reading.
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
    """What to run, ready for the system: no shell is added here."""

    argv: Tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: Optional[bytes] = None
    identity: Optional[Identity] = None
    #: None: inherited.
    umask: Optional[int] = None
    #: Seconds until the tree is ended; None: never.
    timeout: Optional[float] = None
    output_limit: int = OUTPUT_LIMIT
    #: One pipe for both streams, in the order in which they were written.
    merge_stderr: bool = False
    #: Read nothing and do not wait.
    background: bool = False


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    pid: int
    #: Exit code; minus the signal's number when a signal ended it.
    retcode: int
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    #: Bytes that were dropped at the output limit.
    dropped: int = 0


class StartError(CommandExecutionError):
    """The command could not be started."""


@dataclass
class _Streams:
    """The pipes of a running command and what came through them."""

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
    """Write what the pipe takes of *left*; close it after the last byte. Return the rest."""
    assert process.stdin is not None
    try:
        left = left[os.write(process.stdin.fileno(), left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        left = b""  # it does not want its input: its exit code tells the story
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
    """Move bytes until the command has ended and its pipes are closed or silent.

    Returns:
        False when the deadline came first.
    """
    limit = None if command.timeout is None else time.monotonic() + command.timeout
    left, silent_since = command.stdin or b"", time.monotonic()
    # For three pipes at most: nothing has to be made and taken down in the system.
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
    """Wait for the end of a command that closed its own streams; False at the deadline."""
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
    """Run *command* to its end, or to its deadline, and return how it ended.

    Whatever interrupts the waiting (a signal's exception, too) ends the command's tree.

    Args:
        command: what to run.
        tap: receives its output while it runs.

    Raises:
        StartError: it could not be started.
    """
    process = _start(command)
    if command.background:
        pid = process.pid
        process.returncode = 0  # nobody will ask; the system reaps it when this process leaves
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
