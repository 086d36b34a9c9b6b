"""What an action that has not ended waits for, and until when. Pure: no I/O, no clock."""

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

    #: For people; "" where it waits for nothing.
    text: str = ""
    #: When that ends at the latest, seconds since the epoch; 0: it has no end by itself.
    until: float = 0.0


_NO_WAIT = Wait()


@dataclass(frozen=True)
class JobFact:
    """A job that starts or resumes a run, as it stands on the minion."""

    jid: str
    state: Delivery
    #: Until when it may begin, seconds since the epoch.
    not_after: float = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether it has not ended."""
        return self.state in OPEN


@dataclass(frozen=True)
class MinionFact:
    """A minion, and a run of a chain there."""

    name: str
    up: bool = True
    #: When it was connected last, seconds since the epoch; 0: never.
    last_seen: float = 0.0
    #: The job that starts the run.
    start: JobFact | None = None
    #: The open job that resumes it.
    resume: JobFact | None = None
    #: The open chain right before it on the minion, as people name it.
    ahead: str = ""
    #: Why the minion says that it can't go on, and when the run is given up therefore.
    disowned: str = ""
    #: By whom the run is paused there, and how it continues; "": it is not.
    paused: str = ""
    #: The clean-up for which its start waits there, and until when.
    clean: Wait = _NO_WAIT
    #: Until when each begun boundary has to be proven, by action.
    deadlines: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChainFact:
    """A chain as its waits depend on it."""

    id: int
    state: ChainState
    due: float = 0.0
    reason: str = ""
    #: By whom it is paused everywhere, and how it continues; "": it is not.
    paused: str = ""
    #: Why it can't be started although it is due; "": it was not tried.
    delay: str = ""
    #: When it is held because it is too late, seconds since the epoch.
    late: float = 0.0


#: Of a host that works on a run and is away: nobody knows whether it will come back.
_NO_END = "its result comes when it is back; until then only `catena chain cancel` ends it"

_PROOFS = {
    Boundary.reboot: "waits for the boot",
    Boundary.agent_upgrade: "waits for the new agent",
}


def of_undispatched(chain: ChainFact) -> Wait:
    """Return what every action of a chain waits for that was not dispatched."""
    if chain.state is ChainState.draft:
        return Wait(f"a draft: catena chain schedule {chain.id}")
    if chain.state is ChainState.pending_approval:
        return Wait(f"waits for approval: catena chain approve {chain.id}")
    if chain.state is ChainState.waiting:
        commands = f"catena chain release {chain.id}, or cancel {chain.id}"
        return Wait(f"held: {chain.reason}; a person decides: {commands}")
    if chain.paused:
        return Wait(chain.paused)
    if chain.state is ChainState.scheduled and chain.delay:
        return Wait(f"is due and can't start, which is tried again: {chain.delay}", chain.late)
    if chain.state is ChainState.scheduled:
        return Wait("waits for its time", chain.due)
    return Wait()


def of_minion(facts: Sequence[ExecutionFact], minion: MinionFact) -> dict[int, Wait]:
    """Return what the open actions of a run wait for on one minion, by action id.

    The first of them says what all wait for; those behind it wait for their turn.
    """
    found: dict[int, Wait] = {}
    #: Of every action behind the first one.
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
    if fact.state is not ExecutionState.RUNNING and not _is_there(minion):
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
        return Wait("waits for the first look at the host")
    if job is None:
        return Wait("waits for a resume, and no job is to resume it: it is given up when idle")
    return _of_job(job, minion)


def _is_there(minion: MinionFact) -> bool:
    """Return whether the minion has the job that the action waits for: no pause stops that."""
    jobs = (minion.start, minion.resume)
    return any(job and job.state in (Delivery.received, Delivery.running) for job in jobs)


def _of_job(job: JobFact, minion: MinionFact) -> Wait:
    what = f"job {job.jid}"
    if job.state in (Delivery.held, Delivery.queued):
        return Wait(f"{what} is to be sent{_away(minion)}", job.not_after)
    if job.state is Delivery.sent:
        return Wait(f"{what} is sent and not confirmed{_away(minion)}", job.not_after)
    if minion.ahead:
        return Wait(f"waits behind {minion.ahead} on {minion.name}{_away(minion)}")
    if job.state is Delivery.received:
        return Wait(f"{what} is in the queue of {minion.name}{_away(minion)}", job.not_after)
    return Wait(f"{what} begins{_away(minion)}")


def _away(minion: MinionFact) -> str:
    if minion.up:
        return ""
    if not minion.last_seen:
        return f"; {minion.name} was never connected"
    at = datetime.fromtimestamp(minion.last_seen).astimezone()
    return f"; {minion.name} is not connected, seen last {at:%Y-%m-%d %H:%M:%S}"
