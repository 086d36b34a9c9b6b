"""The host that a function finds itself on in a run over SSH: nobody may be connected."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.clock import Clock, SystemClock
from catena.core.context import Context, FileClient
from catena.core.dry_run import unguarded
from catena.core.errors import CommandExecutionError, PillarError
from catena.core.files import no_room
from catena.core.frozen import replace
from catena.runtime.custom_files import KINDS
from catena.runtime.host import LocalHost, Place
from catena.runtime.push import asking
from catena.runtime.push.files import PartMissingError, ShippedFiles
from catena.runtime.push.host_folder import Room
from catena.runtime.push.protocol import PushedJob
from catena.runtime.push.runs import RunFolder, StepWriter
from catena.runtime.session import Session, session_on

#: How often a run looks whether its question was answered.
_LOOK_SECONDS = 0.02


class CalledOffError(CommandExecutionError):
    """The run was cancelled while it waited for the master."""


class Journal:
    """What a run tells and asks, in its folder, which is the agent's own: in test mode too.

    Args:
        run: the run.
        clock: the time of each step.
    """

    def __init__(self, run: RunFolder, clock: Clock) -> None:
        self._run = run
        self._writer = StepWriter(run.steps, clock)

    @unguarded()
    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add a step. On a full disk steps are left out: the result has all that they say."""
        try:
            self._writer.add(kind, dict(data))
        except OSError as error:
            if not no_room(error):
                raise

    @unguarded()
    def ask(self, question: Any) -> asking.Reply:
        """Return the master's answer to a record of `runtime.push.asking`; wait until it is here.

        Raises:
            CalledOffError: the run was cancelled.
            OSError: the question can't be written.
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
    """

    def __init__(
        self,
        place: Place,
        files: FileClient,
        journal: Journal,
        pillar: Optional[Mapping[str, Any]],
        clock: Optional[Clock] = None,
    ) -> None:
        def given(*_: Any) -> Tuple[Dict[str, Any], Tuple[str, ...]]:
            return (dict(pillar), ()) if pillar is not None else self._asked({}, "")

        super().__init__(place, files, given, journal.add, clock)
        self._journal = journal

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return fresh pillar from the master, who is asked and waited for.

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

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Leave an event for the master, who fires it when it reads the journal."""
        self._journal.add("event", {"tag": tag, "data": dict(data)})
        return True


def session_of(room: Room, run: RunFolder, job: PushedJob) -> Session:
    """Return the session of a run; its custom files are made what the job says.

    Raises:
        CatenaError: the job can't be used on this host.
        OSError: the room can't be written.
    """
    clock = SystemClock()
    journal = Journal(run, clock)
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
    host = PushedHost(place, files, journal, job.pillar, clock)
    host.cancelled = lambda: run.cancelled() is not None
    rendering = asking.AskedRendering(journal.ask, began, rendered)
    session = session_on(host, job.spec, rendering)
    session = Session(_context(session.context, job), host)
    return session


def _local(place: Place) -> Place:
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
    """Make the custom files of a host what its files say; return the changed names."""
    env = ",".join(environments) or "base"
    return [name for kind in KINDS for name in host.sync(kind, env)]
