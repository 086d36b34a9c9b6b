"""A visit to one host: connect, start the program, and reconnect after a lost connection.

A run on the host continues without a connection, so a lost connection is not a result. Every
request about a run (`start`, `poll`, `supply`, `collect`, `ack`) can be repeated on a new
connection. If the host is away for too long, the result is reported as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from catena.core.errors import CatenaError, PeerError
from catena.core.job import JobSpec
from catena.core.logs import logger
from catena.runtime.push import asking
from catena.runtime.push import protocol as p
from catena.runtime.push.asking import MasterReply
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.connect.link import Connection, Connector, Watch
from catena.ssh.push.compile import Seat
from catena.ssh.push.kept_bundle import kept_bundle
from catena.ssh.push.program import Part, Program
from catena.ssh.push.remembered import Remembered

log = logger(__name__)

#: Seconds after which the result of a run on an unreachable host is reported as unknown.
AWAY_SECONDS = 900.0
#: Maximum seconds of a poll if the run can be cancelled meanwhile.
LOOK_SECONDS = 1.0
#: Maximum number of steps of one run: a state has two, a request one.
STEPS_LIMIT = 1_000_000
#: Bytes allowed for a return in addition to twice the limit of its output.
RETURN_FLOOR = 16 * 1024 * 1024
_PAUSES = (0.2, 1.0, 2.0, 5.0, 10.0)

Told = Callable[[p.RunStep], None]
#: Returns why the run is cancelled, or "".
Cancelled = Callable[[], str]


class Visit:
    """One host, from the first connection to the last.

    Args:
        seat: the host.
        connect: opens a connection.
        watch: receives each step.
        cancelled: polled during a run; None: the run is never cancelled.
        away_seconds: maximum time without a connection before the visit ends.
    """

    def __init__(
        self,
        seat: Seat,
        connect: Connector,
        watch: Watch,
        cancelled: Cancelled | None = None,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        self._seat = seat
        self._connect = connect
        self._watch = watch
        self._cancelled = cancelled
        self._away_seconds = away_seconds
        self._connection: Connection | None = None
        self._program: Program | None = None
        #: Runs whose returns were collected but are still stored on the host.
        self._collected: list[str] = []
        #: The first greeting of the program.
        self.welcome = p.HostWelcome("", "", 0, 0, "", "", "", "", 0)
        self.grains: dict[str, Any] = {}
        #: The reply to the request that set the host's id.
        self.opened = p.Opened()

    def begin(self) -> None:
        """Connect to the host, set its id, send its custom files and collect its grains.

        Raises:
            SshError: the host can't be reached or used.
        """
        program = self._reach()
        try:
            self.welcome = program.hello()
            self.grains = self._open(program)
        except ChannelLostError as error:
            what = f"{error.what}; this visit has begun nothing"
            raise SshError(error.host, PushPhase.compile, what, waits=True) from None

    def collected(self) -> dict[str, Any]:
        """Collect the grains and return them."""
        self.grains = self._open(self.program())
        return self.grains

    def program(self) -> Program:
        """Return the program; reconnect if the connection was lost.

        Raises:
            SshError: it can't be reached.
        """
        if self._program is None:
            program = self._reach()
            self._open(program)
        assert self._program is not None
        return self._program

    def close(self) -> None:
        """Close the connection. Runs on the host continue."""
        program, self._program = self._program, None
        connection, self._connection = self._connection, None
        if program is not None:
            program.close()
        if connection is not None:
            connection.close()

    def run(
        self,
        run_id: str,
        job: p.PushedJob,
        parts: Mapping[str, Part],
        answer: Callable[[Any], MasterReply],
        told: Told,
    ) -> p.RunResult:
        """Run a job on the host to its end, reconnecting if necessary.

        Args:
            run_id: of the run; an existing run is continued.
            job: the job to run.
            parts: contents by hash; missing ones are sent.
            answer: answers the requests of the run.
            told: receives all other steps.

        Raises:
            SshError: the host is no longer reachable; the text says what is known.
            TargetError: the host could not start the job; nothing ran.
        """
        self._watch(PushPhase.install, "files")
        whole = Part.of(p.pack_job(job))
        self._persist(run_id, lambda program: _start(program, run_id, whole, parts))
        self._watch(PushPhase.run, "started")
        return self.follow(run_id, job.spec, answer, told)

    def follow(
        self, run_id: str, spec: JobSpec, answer: Callable[[Any], MasterReply], told: Told
    ) -> p.RunResult:
        """Follow a started run to its end; arguments and errors are those of `run`."""
        after, called_off = 0, False
        wait = p.POLL_SECONDS if self._cancelled is None else LOOK_SECONDS
        ends = time.monotonic() + spec.deadline_seconds + AWAY_SECONDS
        while True:
            if time.monotonic() > ends:
                raise self._unknown(run_id, "it does not end, although its deadline has passed")
            why = self._cancelled() if self._cancelled is not None and not called_off else ""
            if why:
                self._persist(run_id, partial(_cancel, run_id=run_id, reason=why))
                called_off = True
            poll = partial(_poll, run_id=run_id, after=after, wait=wait)
            polled = self._persist(run_id, poll)
            for step in polled.steps:
                if step.seq <= after:
                    raise PeerError(f"{self._seat.target.id}: steps that go back")
                after = step.seq
                if after > STEPS_LIMIT:
                    raise PeerError(f"{self._seat.target.id}: more than {STEPS_LIMIT} steps")
                if step.kind == "ask" and not step.data.get("answered"):
                    self._supply(run_id, step, answer)
                elif step.kind != "ask":
                    told(step)
            if polled.phase is p.RunPhase.done and not polled.steps:
                break
        self._watch(PushPhase.collect, "result")
        limit = RETURN_FLOOR + 2 * spec.output_limit
        result: p.RunResult = self._persist(run_id, lambda program: program.collect(run_id, limit))
        self._collected.append(run_id)
        return result

    def forget(self, also: Iterable[str] = ()) -> None:
        """Make the host delete the collected runs, and the runs in *also*.

        An unreachable host deletes them by itself after a week.
        """
        collected, self._collected = self._collected, []
        for run_id in dict.fromkeys((*collected, *also)):
            if not self._forgets(run_id):
                # Try again: the connection may have been the problem, or the problem is over.
                self._forgets(run_id)

    def _forgets(self, run_id: str) -> bool:
        """Make the host delete a run; return whether it has replied."""
        try:
            self.program().ack(run_id)
        except CatenaError as error:
            if isinstance(error, SshError):
                self.close()
            log.debug("run %s stays on %s", run_id, self._seat.target.id, exc_info=True)
            return False
        return True

    def _supply(self, run_id: str, step: p.RunStep, answer: Callable[[Any], MasterReply]) -> None:
        number = step.data.get("number")
        if type(number) is not int:
            raise PeerError(f"{self._seat.target.id}: a question without a number")
        question = asking.unpacked(str(step.data.get("kind")), step.data.get("data"))

        def supply(program: Program) -> None:
            blob = asking.pack_reply(answer(question))
            program.supply(run_id, number, blob)

        self._persist(run_id, supply)

    def _persist(self, run_id: str, work: Callable[[Program], Any]) -> Any:
        """Call *work* with the program; repeat it on a new connection if the old one is lost."""
        lost: float | None = None
        tries = 0
        while True:
            try:
                return work(self.program())
            except SshError as error:
                # A time-out is not a result either, because only the connection may hang.
                if not error.waits:
                    raise
                self.close()
                lost = lost if lost is not None else time.monotonic()
                if time.monotonic() - lost > self._away_seconds:
                    what = f"the connection was lost and did not come back ({error.what})"
                    raise self._unknown(run_id, what) from error
                self._watch(PushPhase.connect, f"lost, the run goes on there: {error.what}")
                time.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1

    def _unknown(self, run_id: str, what: str) -> SshError:
        advice = f"run {run_id} may go on there, or have ended: look at the host before you repeat"
        return SshError(self._seat.target.id, PushPhase.run, what, advice, waits=True)

    def _reach(self) -> Program:
        """Connect again and return a new program on the host."""
        self.close()
        target = self._seat.target
        self._watch(PushPhase.connect, target.host)
        connection = self._connect(target)
        self._connection = connection
        self._watch(PushPhase.install, "program")
        kept = cache_of(self._seat.settings)
        known = Remembered(kept / "hosts")
        self._program = Program.start(connection, kept_bundle(kept), remembered=known)
        return self._program

    def _open(self, program: Program) -> dict[str, Any]:
        self._watch(PushPhase.compile, "grains")
        seat = self._seat
        opened = program.open(seat.identity, seat.custom.trees())
        if opened.missing:
            program.put(seat.custom.parts[sha256] for sha256 in opened.missing)
            opened = program.open(seat.identity, seat.custom.trees())
        if opened.missing:
            raise CatenaError(f"{seat.target.id}: custom files do not arrive whole")
        self.opened = opened
        return dict(opened.grains)


def _start(program: Program, run_id: str, job: Part, parts: Mapping[str, Part]) -> None:
    """Send missing parts and start the run, unless it was already started."""
    program.put(parts[sha256] for sha256 in sorted(program.missing(parts)))
    if program.missing([job.sha256]):
        program.put([job])
    program.begin(run_id, job.sha256)


def _poll(program: Program, run_id: str, after: int, wait: float) -> p.Polled:
    return program.poll(run_id, after, wait)


def _cancel(program: Program, run_id: str, reason: str) -> p.Polled:
    return program.cancel(run_id, reason)
