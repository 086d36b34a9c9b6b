"""The host of a function in a run over SSH, perhaps without a connection to the master."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.clock import Clock, SystemClock
from catena.core.context import Context, FileClient, OutputTap
from catena.core.dry_run import unguarded
from catena.core.errors import CommandExecutionError, PillarError
from catena.core.files import no_room
from catena.core.frozen import replace
from catena.runtime.custom_files import KINDS
from catena.runtime.host import AgentHome, LocalHost
from catena.runtime.push import asking
from catena.runtime.push.files import PartMissingError, ShippedFiles
from catena.runtime.push.host_folder import Room
from catena.runtime.push.protocol import PushedJob
from catena.runtime.push.runs import RunFolder, StepWriter
from catena.runtime.session import JobSession, session_on

#: Seconds between checks for the answer to a run's question.
_LOOK_SECONDS = 0.02


class CalledOffError(CommandExecutionError):
    """The run was cancelled while it waited for the master."""


class RunJournal:
    """Reports and questions of a run, in its folder, which may be written in test mode, too.

    Args:
        run: the run.
        clock: the time of each step.
    """

    def __init__(self, run: RunFolder, clock: Clock) -> None:
        self._run = run
        self._writer = StepWriter(run.steps, clock)

    @unguarded()
    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add a step. On a full disk steps are dropped, since the result contains everything."""
        try:
            self._writer.add(kind, dict(data))
        except OSError as error:
            if not no_room(error):
                raise

    @unguarded()
    def ask(self, question: Any) -> asking.MasterReply:
        """Write a question, a record of `runtime.push.asking`, and wait for the master's answer.

        Raises:
            CalledOffError: the run was cancelled.
            OSError: the question cannot be written.
        """
        kind, data = asking.packed(question)
        number = self._writer.add("ask", {"kind": kind, "data": data}, "number")
        while True:
            blob = self._run.supplied(number)
            if blob is not None:
                return asking.unpack_reply(blob)
            if self._run.cancelled() is not None:
                raise CalledOffError()
            time.sleep(_LOOK_SECONDS)


class PushedHost(LocalHost):
    """A host in a run over SSH.

    Args:
        place: where it lives in the room.
        files: those of the run.
        journal: takes steps, events and questions.
        pillar: what the run begins with; None: asked for when it is looked at.
        clock: the time.
        output_bytes: of commands' output that the journal takes; 0: none.
    """

    def __init__(
        self,
        place: AgentHome,
        files: FileClient,
        journal: RunJournal,
        pillar: Optional[Mapping[str, Any]],
        clock: Optional[Clock] = None,
        output_bytes: int = 0,
    ) -> None:
        def given(*_: Any) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
            return (dict(pillar), ()) if pillar is not None else self._asked({}, "")

        super().__init__(place, files, given, journal.add, clock)
        self._journal = journal
        self._output_left = output_bytes

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return fresh pillar, requested from the master.

        Raises:
            PillarError: a pillar file has errors.
        """
        pillar, errors = self._asked(override or {}, pillarenv)
        if errors:
            raise PillarError(errors, pillar)
        return pillar

    def _asked(
        self, override: Mapping[str, Any], pillarenv: str
    ) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
        question = asking.AskPillar(dict(override), pillarenv)
        pillar, errors = asking.asked(self._journal.ask, question)
        return dict(pillar), tuple(str(error) for error in errors)

    def listen(self) -> Optional[OutputTap]:
        """Return what writes the next command's output to the journal while it runs."""
        return self._tap(self._print) if self._output_left > 0 else None

    def _print(self, at: int, size: int, stream: str, text: str) -> bool:
        # The chunk that exceeds the limit is written, so that the master notes the excess.
        if self._output_left > 0:
            self._output_left -= size
            self._journal.add("output", {"at": at, "size": size, "stream": stream, "text": text})
        return True

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Write an event into the journal, from which the master fires it."""
        self._journal.add("event", {"tag": tag, "data": dict(data)})
        return True


def session_of(room: Room, run: RunFolder, job: PushedJob) -> JobSession:
    """Return the session of a run; its custom files are made what the job says.

    Raises:
        CatenaError: the job can't be used on this host.
        OSError: the room can't be written.
    """
    clock = SystemClock()
    journal = RunJournal(run, clock)
    sent = ShippedFiles(job.files, room.parts)

    def rendered(key: str) -> Optional[str]:
        sha256 = job.rendered.get(key)
        if sha256 is None:
            return None
        found = room.parts.find(sha256)
        if found is None:
            raise PartMissingError("the text of a rendered template did not arrive whole")
        return found.read_text("utf-8")

    def began() -> Context:
        return session.context

    place = _local(room.place(job.identity, job.grains or None))
    sync_custom(PushedHost(place, sent, journal, job.pillar), sent.environments())
    files = asking.AskedFiles(sent, journal.ask, room.parts)
    host = PushedHost(place, files, journal, job.pillar, clock, job.output_bytes)
    host.cancelled = lambda: run.cancelled() is not None
    rendering = asking.AskedRendering(journal.ask, began, rendered)
    session = session_on(host, job.spec, rendering)
    session = JobSession(_context(session.context, job), host)
    return session


def _local(place: AgentHome) -> AgentHome:
    return replace(place, settings=replace(place.settings, file_client="local"))


def _context(context: Context, job: PushedJob) -> Context:
    """Lay the environment and the test mode of a run over its context, as `state.apply` does."""
    changes: Dict[str, Any] = {}
    opts: Dict[str, Any] = {}
    if job.test != context.test:
        changes["test"] = opts["test"] = job.test
    if job.saltenv and job.saltenv != context.saltenv:
        changes["saltenv"] = opts["saltenv"] = opts["environment"] = job.saltenv
    if opts:
        changes["opts"] = {**context.opts, **opts}
    return context.with_(**changes) if changes else context


def sync_custom(host: LocalHost, environments: Sequence[str]) -> List[str]:
    """Make the custom files of a host equal to its file roots; return the changed names."""
    env = ",".join(environments) or "base"
    return [name for kind in KINDS for name in host.sync(kind, env)]
