"""Tells what an open action waits for, and until when. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catena.core.job import Boundary
from catena.master.chains.decide import ExecutionFact
from catena.master.chains.lifecycle import ChainState
from catena.master.executions.lifecycle import ExecutionState
from catena.master.jobs.delivery import OPEN, Delivery


@dataclass(frozen=True)
class Wait:
    """What an action waits for."""

    #: Text for people; "" if the action waits for nothing.
    text: str = ""
    #: Latest end of the wait, seconds since the epoch; 0: the wait has no limit.
    until: float = 0.0


_NO_WAIT = Wait()


@dataclass(frozen=True)
class JobFact:
    """A job that starts or resumes a run, with the state of its delivery to one minion."""

    jid: str
    state: Delivery
    #: Latest start time of the job, seconds since the epoch.
    not_after: float = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether the job has not ended on the minion."""
        return self.state in OPEN


@dataclass(frozen=True)
class MinionFact:
    """A minion, and a run of a chain on it."""

    name: str
    up: bool = True
    #: Last time at which the minion was connected, seconds since the epoch; 0: never.
    last_seen: float = 0.0
    #: The job that starts the run.
    start: JobFact | None = None
    #: The open job that resumes the run.
    resume: JobFact | None = None
    #: Title of the open chain directly before this one on the minion; "": there is none.
    ahead: str = ""
    #: Why the minion can't continue the run, as it reported; "": it did not report that.
    disowned: str = ""
    #: Who paused the run on this minion, and the command that continues it; "": not paused.
    paused: str = ""
    #: The clean-up for which the start of the run waits on this minion, and until when.
    clean: Wait = _NO_WAIT
    #: Action id -> when its boundary counts as failed, seconds since the epoch.
    deadlines: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainFact:
    """What the waits of a chain's actions depend on."""

    id: int
    state: ChainState
    #: Due time, seconds since the epoch.
    due: float = 0.0
    reason: str = ""
    #: Who paused the chain on all minions, and the command that continues it; "": not paused.
    paused: str = ""
    #: Why the last attempt to start the due chain failed; "": there was none.
    delay: str = ""
    #: Time at which a chain that has not started is held as too late, seconds since the epoch.
    late: float = 0.0


#: Shown for a minion that disconnected during a run; it is unknown whether it will return.
_NO_END = "its result arrives when it is back; only `catena chain cancel` ends the wait earlier"

_PROOFS = {
    Boundary.reboot: "waits for the boot",
    Boundary.agent_upgrade: "waits for the new agent",
}


def of_undispatched(chain: ChainFact) -> Wait:
    """Return what every action of a chain waits for that was not dispatched yet."""
    if chain.state is ChainState.draft:
        return Wait(f"a draft: catena chain schedule {chain.id}")
    if chain.state is ChainState.pending_approval:
        return Wait(f"waits for approval: catena chain approve {chain.id}")
    if chain.state is ChainState.waiting:
        commands = f"catena chain release {chain.id}, or cancel {chain.id}"
        return Wait(f"held: {chain.reason}; decide with {commands}")
    if chain.paused:
        return Wait(chain.paused)
    if chain.state is ChainState.scheduled and chain.delay:
        return Wait(f"is due but can't start, the master retries: {chain.delay}", chain.late)
    if chain.state is ChainState.scheduled:
        return Wait("waits for its due time", chain.due)
    return Wait()


def of_minion(facts: Sequence[ExecutionFact], minion: MinionFact) -> dict[int, Wait]:
    """Return what the open actions of a run wait for on one minion, by action id.

    Only the first open action gets the real cause; the others wait for the first one.
    """
    found: dict[int, Wait] = {}
    #: The wait of every open action behind the first one.
    behind: Wait | None = None
    for fact in sorted(facts, key=lambda fact: fact.sort_order):
        if not fact.is_open:
            continue
        if behind is None:
            found[fact.action_id] = _of_first(fact, minion)
            behind = Wait(f"after action {fact.sort_order}")
        else:
            found[fact.action_id] = behind
    return found


def _of_first(fact: ExecutionFact, minion: MinionFact) -> Wait:
    if fact.picked_up:
        text = _PROOFS.get(fact.waits_for, "waits for its proof")
        return Wait(text + _away(minion), minion.deadlines.get(fact.action_id, 0.0))
    if fact.state is not ExecutionState.RUNNING and not _was_received(minion):
        if minion.paused:
            return Wait(minion.paused)
        if minion.clean.text:
            return replace(minion.clean, text=minion.clean.text + _away(minion))
    if minion.disowned:
        return Wait(f"is given up soon: {minion.disowned}")
    job = minion.start if minion.start and minion.start.is_open else minion.resume
    if fact.state is ExecutionState.RUNNING:
        return Wait("" if minion.up else f"runs{_away(minion)}; {_NO_END}")
    if fact.state is ExecutionState.PENDING_SCHEDULE:
        return Wait("waits for the first SSH visit to the host")
    if job is None:
        return Wait("waits for a resume, but no job resumes it; given up after an hour of silence")
    return _of_job(job, minion)


def _was_received(minion: MinionFact) -> bool:
    """Return whether the minion has received the run's job, which a pause no longer stops."""
    jobs = (minion.start, minion.resume)
    return any(job and job.state in (Delivery.received, Delivery.running) for job in jobs)


def _of_job(job: JobFact, minion: MinionFact) -> Wait:
    what = f"job {job.jid}"
    if job.state in (Delivery.held, Delivery.queued):
        return Wait(f"{what} is not sent yet{_away(minion)}", job.not_after)
    if job.state is Delivery.sent:
        return Wait(f"{what} is sent but not confirmed{_away(minion)}", job.not_after)
    if minion.ahead:
        return Wait(f"waits behind {minion.ahead} on {minion.name}{_away(minion)}")
    if job.state is Delivery.received:
        return Wait(f"{what} is in the queue of {minion.name}{_away(minion)}", job.not_after)
    return Wait(f"{what} begins{_away(minion)}")


def _away(minion: MinionFact) -> str:
    """Return the end of a text that says since when the minion is away; "" if it is connected."""
    if minion.up:
        return ""
    if not minion.last_seen:
        return f"; {minion.name} was never connected"
    at = datetime.fromtimestamp(minion.last_seen).astimezone()
    return f"; {minion.name} is not connected, seen last {at:%Y-%m-%d %H:%M:%S}"
