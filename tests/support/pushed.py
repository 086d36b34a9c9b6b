"""The program that SSH brings to a host, as a subprocess behind pipes: everything but sshd."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from catena.core.clock import read_boot_id
from catena.core.job import JobSpec
from catena.runtime import processes
from catena.runtime.push import protocol as p
from catena.runtime.push.runs import RunFolder
from catena.ssh.connect import channel
from catena.ssh.connect.errors import ChannelLostError, PushPhase
from catena.ssh.push.bundle import Bundle, bundle
from catena.ssh.push.program import Part, Program

JID = "20261121183000000000"
RUN = "run-00000001"
#: No test waits longer for anything.
SECONDS = 60.0


class Pipes:
    """A command behind pipes, as `ssh.connect.session.RemoteCommand` is behind sshd."""

    may_ask = False

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
        self._said = b""

    def send(self, data: bytes, deadline: float) -> None:
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError as error:
            raise ChannelLostError("host", PushPhase.run, str(error), waits=True) from None

    def receive(self, deadline: float) -> tuple[bytes, bytes]:
        assert self.process.stdout is not None and self.process.stderr is not None
        streams = [self.process.stdout, self.process.stderr]
        while streams:
            ready, _, _ = select.select(streams, (), (), max(0.0, deadline - time.monotonic()))
            assert ready, "no answer in time"
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 20)
                if not data:
                    streams.remove(stream)
                elif stream is self.process.stdout:
                    return data, b""
                else:
                    self._said += data
        return b"", b""

    def exit_code(self) -> int:
        return self.process.wait(SECONDS)

    def tail(self) -> str:
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait(SECONDS)


class Bench:
    """A host: one room, and the interpreter that serves it.

    Args:
        room: the folder; not made.
        python: the interpreter.
        before: words before it, such as those of chroot or of a namespace.
    """

    def __init__(self, room: Path, python: str, before: tuple[str, ...] = ()) -> None:
        self.room = room
        self.python = python
        self.before = before
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(room)}
        #: What starts the program, where the room has another name inside.
        self.argv: list[str] = []
        self._pipes: list[Pipes] = []

    def session(self, program: Bundle | None = None) -> Pipes:
        argv = self.argv or (program or bundle()).argv(self.python, str(self.room))
        found = Pipes([*self.before, *argv], self.env)
        self._pipes.append(found)
        return found

    def channel(self, program: Bundle | None = None) -> tuple[Program, Pipes]:
        supply = (program or bundle()).supply
        pipes = self.session(program)
        found = channel.start(cast(Any, pipes), "host", supply, SECONDS)
        return Program(found), pipes

    @contextlib.contextmanager
    def program(self) -> Iterator[Program]:
        found, _ = self.channel()
        with contextlib.closing(found):
            yield found

    def close(self) -> None:
        """End every channel that is still open."""
        for pipes in self._pipes:
            pipes.close()

    def debris(self) -> list[str]:
        """Return what is left in the room of parts on their way and of runs, sorted."""
        found = [*self.room.glob("incoming/*"), *self.room.glob("runs/*")]
        return sorted(path.relative_to(self.room).as_posix() for path in found)


def end_runs(room: Path) -> None:
    """Kill the detached runs of a room: they outlive the channel that started them, on purpose."""
    for claim in (*room.glob("runs/*/runner"), *room.glob("runs/*/worker")):
        process = RunFolder(claim.parent).process(claim.name)
        if process is not None and process.pid != os.getpid():
            with contextlib.suppress(OSError):
                processes.kill_tree(process, read_boot_id())


def job(fun: str = "test.ping", *args: Any, settings: Any = None, **fields: Any) -> p.PushedJob:
    """Return a job that calls *fun*; keywords are fields of the job, or of its spec."""
    own = {name: fields.pop(name) for name in list(fields) if name in _JOB_FIELDS}
    spec = JobSpec(JID, fun, args, **fields)
    return p.PushedJob(spec, p.HostIdentity("web1", dict(settings or {})), **own)


_JOB_FIELDS = frozenset(p.PushedJob.__dataclass_fields__) - {"spec", "identity"}


def low(fun: str, name: str, id_: str = "", **args: Any) -> p.LowState:
    """Return one state of a compiled run."""
    state, _, function = fun.partition(".")
    return p.LowState(state, function, id_ or name, name, "test", "base", 10000, args)


def begin(program: Program, what: p.PushedJob, run_id: str = RUN) -> p.Polled:
    """Start a run, with its job as a part."""
    part = Part.of(p.pack_job(what))
    program.put([part])
    return program.begin(run_id, part.sha256)


def steps_until(program: Program, kind: str, run_id: str = RUN) -> list[p.RunStep]:
    """Return the steps of a run up to the first one of *kind* ("" : to its end)."""
    steps: list[p.RunStep] = []
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        polled = program.poll(run_id, len(steps), 5.0)
        steps.extend(polled.steps)
        if kind and any(step.kind == kind for step in polled.steps):
            return steps
        if polled.phase is p.RunPhase.done and not polled.steps:
            assert not kind, f"no step of kind {kind}: {steps}"
            return steps
    raise AssertionError(f"still running: {steps}")


def finished(program: Program, run_id: str = RUN) -> p.RunResult:
    """Return what a run comes to."""
    steps_until(program, "", run_id)
    return program.collect(run_id, 64 * 1024 * 1024)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
