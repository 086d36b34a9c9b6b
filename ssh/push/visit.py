"""A visit to one host: connected, with our program on it, and connected again where that is lost.

What runs on the host does not need us. So a lost connection is never an outcome: every question
of a run (`start`, `poll`, `supply`, `collect`, `ack`) may be asked again on a new one, until the
host has been away for too long; then it is said that nobody knows.
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
from catena.runtime.push.asking import Reply
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.errors import ChannelLostError, Phase, SshError
from catena.ssh.connect.link import Connection, Connector, Watch
from catena.ssh.push.compile import Seat
from catena.ssh.push.kept_bundle import kept_bundle
from catena.ssh.push.program import Part, Program
from catena.ssh.push.remembered import Remembered

log = logger(__name__)

#: A host that has been away for so long while a run goes on: nobody knows what becomes of it.
AWAY_SECONDS = 900.0
#: How long a poll may wait where somebody may call the run off meanwhile.
LOOK_SECONDS = 1.0
#: Of one run: a state has two, a question one.
STEPS_LIMIT = 1_000_000
#: Of a return, beyond twice the limit of its output.
RETURN_FLOOR = 16 * 1024 * 1024
_PAUSES = (0.2, 1.0, 2.0, 5.0, 10.0)

Told = Callable[[p.Step], None]
#: Returns why what runs is called off, or "".
Cancelled = Callable[[], str]


class Visit:
    """One host, from the first connection to the last.

    Args:
        seat: who it is.
        connect: makes a connection.
        watch: told of each step.
        cancelled: asked again and again while something runs; None: it is never called off.
        away_seconds: how long a host may be away before the visit ends.
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
        #: Runs whose returns are here, and still there.
        self._collected: list[str] = []
        #: What the program said when it was first reached.
        self.welcome = p.Welcome("", "", 0, 0, "", "", "", "", 0)
        self.grains: dict[str, Any] = {}
        #: What it said of itself when it was named.
        self.opened = p.Opened()

    def begin(self) -> None:
        """Reach the host, name it, bring its custom files and collect its grains.

        Raises:
            SshError: it can't be reached or used.
        """
        program = self._reach()
        try:
            self.welcome = program.hello()
            self.grains = self._open(program)
        except ChannelLostError as error:
            what = f"{error.what}; this visit has begun nothing"
            raise SshError(error.host, Phase.compile, what, waits=True) from None

    def collected(self) -> dict[str, Any]:
        """Return grains collected now."""
        self.grains = self._open(self.program())
        return self.grains

    def program(self) -> Program:
        """Return the program, reached again where the connection was lost.

        Raises:
            SshError: it can't be reached.
        """
        if self._program is None:
            program = self._reach()
            self._open(program)
        assert self._program is not None
        return self._program

    def close(self) -> None:
        """End the connection. What runs on the host goes on."""
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
        answer: Callable[[Any], Reply],
        told: Told,
    ) -> p.RunResult:
        """Run a job on the host to its end, whatever becomes of the connection.

        Args:
            run_id: of the run; the same one goes on where it was.
            job: what to run.
            parts: contents by their hash, of which the missing ones are sent.
            answer: answers what the run asks.
            told: told of each other step.

        Raises:
            SshError: the host can't be reached any more; what is known is in the text.
            TargetError: the host could not take the job; nothing ran.
        """
        self._watch(Phase.install, "files")
        whole = Part.of(p.pack_job(job))
        self._persist(run_id, lambda program: _start(program, run_id, whole, parts))
        self._watch(Phase.run, "started")
        return self.follow(run_id, job.spec, answer, told)

    def follow(
        self, run_id: str, spec: JobSpec, answer: Callable[[Any], Reply], told: Told
    ) -> p.RunResult:
        """Follow a run that has begun to its end; arguments and errors are those of `run`."""
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
        self._watch(Phase.collect, "result")
        limit = RETURN_FLOOR + 2 * spec.output_limit
        result: p.RunResult = self._persist(run_id, lambda program: program.collect(run_id, limit))
        self._collected.append(run_id)
        return result

    def forget(self, also: Iterable[str] = ()) -> None:
        """Have the host forget the runs that were collected, *also* others: all that is safe.

        A host that can't be told does so by itself after a week.
        """
        collected, self._collected = self._collected, []
        for run_id in dict.fromkeys((*collected, *also)):
            if not self._forgets(run_id):
                # What was wrong may have been the connection, or be over.
                self._forgets(run_id)

    def _forgets(self, run_id: str) -> bool:
        """Have the host forget a run; return whether it has answered."""
        try:
            self.program().ack(run_id)
        except CatenaError as error:
            if isinstance(error, SshError):
                self.close()
            log.debug("run %s stays on %s", run_id, self._seat.target.id, exc_info=True)
            return False
        return True

    def _supply(self, run_id: str, step: p.Step, answer: Callable[[Any], Reply]) -> None:
        number = step.data.get("number")
        if type(number) is not int:
            raise PeerError(f"{self._seat.target.id}: a question without a number")
        question = asking.unpacked(str(step.data.get("kind")), step.data.get("data"))

        def supply(program: Program) -> None:
            blob = asking.pack_reply(answer(question))
            program.supply(run_id, number, blob)

        self._persist(run_id, supply)

    def _persist(self, run_id: str, work: Callable[[Program], Any]) -> Any:
        """Do *work* with the program, again on a new connection where the old one is lost."""
        lost: float | None = None
        tries = 0
        while True:
            try:
                return work(self.program())
            except SshError as error:
                # No answer in time is no outcome either: what hangs may be our connection alone.
                if not error.waits:
                    raise
                self.close()
                lost = lost if lost is not None else time.monotonic()
                if time.monotonic() - lost > self._away_seconds:
                    what = f"the connection was lost and did not come back ({error.what})"
                    raise self._unknown(run_id, what) from error
                self._watch(Phase.connect, f"lost, the run goes on there: {error.what}")
                time.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1

    def _unknown(self, run_id: str, what: str) -> SshError:
        advice = f"run {run_id} may go on there, or have ended: look at the host before you repeat"
        return SshError(self._seat.target.id, Phase.run, what, advice, waits=True)

    def _reach(self) -> Program:
        """Return a new program on the host, on a new connection."""
        self.close()
        target = self._seat.target
        self._watch(Phase.connect, target.host)
        connection = self._connect(target)
        self._connection = connection
        self._watch(Phase.install, "program")
        kept = cache_of(self._seat.settings)
        known = Remembered(kept / "hosts")
        self._program = Program.start(connection, kept_bundle(kept), remembered=known)
        return self._program

    def _open(self, program: Program) -> dict[str, Any]:
        self._watch(Phase.compile, "grains")
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
    """Bring what is missing, and start; a run that was started already is left alone."""
    program.put(parts[sha256] for sha256 in sorted(program.missing(parts)))
    if program.missing([job.sha256]):
        program.put([job])
    program.begin(run_id, job.sha256)


def _poll(program: Program, run_id: str, after: int, wait: float) -> p.Polled:
    return program.poll(run_id, after, wait)


def _cancel(program: Program, run_id: str, reason: str) -> p.Polled:
    return program.cancel(run_id, reason)
