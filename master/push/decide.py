"""Decides what to do with hosts that are reached over SSH, as pure functions of facts.

No I/O, no clock. The worker gathers facts, calls these functions, and stores their decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from catena.core.chain_calls import CLEAN, RESUME, START
from catena.core.marks import is_resumable
from catena.core.run_ref import RunRef
from catena.master.jobs.delivery import UNDER_WAY, Delivery
from catena.master.push.lifecycle import HostEvent, HostState

#: Pauses in seconds after failed visits of an unreachable host; the last one repeats.
PAUSES = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
#: Pause between visits of a host that a person has to check first.
PERSON_SECONDS = 10.0
#: Boot times that differ by at most this are of one boot, if the host has no boot ids.
SAME_BOOT_SECONDS = 3.0


# -- when a host is visited --------------------------------------------------------------------


@dataclass(frozen=True)
class OpenJob:
    """A job that a host has not ended."""

    jid: str
    fun: str
    state: Delivery
    #: Why the job is cancelled; "": it is not.
    cancel: str = ""
    #: Whether the job starts a chain that has to wait for another open chain on the host.
    behind: bool = False
    #: Latest start time, by the clock of orders (`jobs.steady_clock`); 0: none.
    not_after: float = 0.0

    @property
    def begun(self) -> bool:
        """Return whether the host may have begun the job."""
        return self.state in UNDER_WAY and self.state is not Delivery.sent


#: States of deliveries that a batch or a pause holds back.
_NOT_NOW = (Delivery.held, Delivery.paused)


@dataclass(frozen=True)
class HostFacts:
    """The state of a host, and its open work."""

    state: HostState
    #: Earliest time of the next visit, seconds since the epoch.
    due: float = 0.0
    #: Whether the host was ever visited.
    seen: bool = True
    jobs: tuple[OpenJob, ...] = ()
    #: Times from which a visit without a job is due, seconds since the epoch. Its reason is a
    #: reboot that should be over, or a chunk that no job resumes.
    looks: tuple[float, ...] = ()
    #: Number of visits in a row that did not reach the host.
    tries: int = 0


def pause_ends(due: float, now: float, again: float) -> float:
    """Return when a host's pause ends, seconds since the epoch; 0: it has ended.

    A stored end that is later than the longest pause comes from a clock that was set back since.

    Args:
        due: the stored end, seconds since the epoch.
        now: seconds since the epoch.
        again: seconds after a requested reboot at which the host is visited.
    """
    return due if due <= now + max(PAUSES[-1], PERSON_SECONDS, again) else 0.0


@dataclass(frozen=True)
class VisitPurpose:
    """What a visit is for: a job, or (None) only to read the host's facts."""

    job: OpenJob | None = None


def purpose(facts: HostFacts, now: float) -> VisitPurpose | None:
    """Return what a host is to be visited for now; None: no visit is due."""
    if facts.state is HostState.visited or facts.due > now:
        return None
    job = _job(facts)
    if job is not None:
        return VisitPurpose(job)
    look = any(at <= now for at in facts.looks)
    never = not facts.seen and facts.state in (HostState.wanted, HostState.away, HostState.refused)
    return VisitPurpose() if look or never else None


def _job(facts: HostFacts) -> OpenJob | None:
    """Return the next job of a host; None if it has none that can run.

    Begun jobs come first, and jobs that start a chain come last.
    """
    ready = [job for job in facts.jobs if not job.behind and job.state not in _NOT_NOW]

    def rank(job: OpenJob) -> tuple[int, int, str]:
        return (0 if job.begun else 1, 1 if job.fun == START else 0, job.jid)

    return min(ready, key=rank, default=None)


def too_late(facts: HostFacts, now: float) -> list[OpenJob]:
    """Return the sent jobs whose latest start time has passed.

    Args:
        facts: of the host.
        now: reading of the clock of orders (`jobs.steady_clock`).
    """
    if facts.state is HostState.visited:
        return []
    sent = (job for job in facts.jobs if job.state is Delivery.sent)
    return [job for job in sent if 0 < job.not_after < now]


def next_time(facts: HostFacts) -> float | None:
    """Return when the next visit is due, seconds since the epoch; None: after the next change."""
    if facts.state is HostState.visited:
        return None
    if _job(facts) is not None or (not facts.seen and facts.state is not HostState.unfit):
        return facts.due
    return max(facts.due, min(facts.looks)) if facts.looks else None


def rests(facts: HostFacts) -> bool:
    """Return whether a host that has nothing left to do should move to the state resting."""
    idle = not facts.jobs and not facts.looks
    return idle and facts.seen and facts.state not in (HostState.resting, HostState.visited)


# -- what follows from a host's facts ----------------------------------------------------------


@dataclass(frozen=True)
class Boot:
    """One boot of a host."""

    id: str
    #: Start of the boot, ISO 8601; "" if unknown.
    time: str = ""

    def is_same(self, other: Boot) -> bool:
        """Return whether two readings are of one boot.

        The ids decide. If one is missing, the times must agree within SAME_BOOT_SECONDS; without
        times the boots count as one.
        """
        if self.id and other.id:
            return self.id == other.id
        mine, theirs = _moment(self.time), _moment(other.time)
        if mine is None or theirs is None:
            return True
        return abs(mine - theirs) <= SAME_BOOT_SECONDS


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True)
class Seen:
    """The facts that a visit read on a host."""

    machine_id: str
    boot: Boot
    #: Content of the resume file; {} if there is none.
    pending: Mapping[str, Any] = field(default_factory=dict)
    #: Why the resume file can't be read; "": it can.
    fault: str = ""


@dataclass(frozen=True)
class HostKnowledge:
    """What the master's store contains about a host."""

    #: "": the host was never visited.
    machine_id: str = ""
    #: Chain id -> title, for chains with an open run on the host.
    open_chains: Mapping[int, str] = field(default_factory=dict)
    #: Runs of this master that have ended on the host.
    ended_runs: frozenset[RunRef] = frozenset()
    #: Chain id -> epoch of its open run.
    epochs: Mapping[int, int] = field(default_factory=dict)
    #: Boots in which reboots were requested that are not proven yet.
    asked_in: tuple[Boot, ...] = ()
    #: Whether a requested reboot has not happened within its time.
    overdue: bool = False
    #: Whether a job that starts or resumes a chain is open on the host.
    resuming: bool = False
    #: Why the visit's job, or the run that has begun there, must wait; "": it need not wait.
    paused: str = ""
    #: Boot of the last start event that the master made for the host.
    played: str = ""
    #: Whether that event, or the last repeated request of a reboot, is old enough for the next.
    long_ago: bool = True


@dataclass(frozen=True)
class VisitVerdict:
    """What follows from a host's facts."""

    #: Whether the job may run.
    go: bool = True
    #: Why the job is refused; "": it is not.
    refuse: str = ""
    #: Why a person must check the host; "": not needed.
    person: str = ""
    #: Whether the host has booted, so that the master makes its start event.
    play: bool = False
    #: Whether a requested reboot did not happen and is requested again.
    remind: bool = False
    #: Ended run that the host must remove before the job can run.
    forget: RunRef | None = None
    #: What the job waits for, for people.
    wait: str = ""
    #: Why the job must not begin yet; "": it may begin.
    pause: str = ""


def judge(
    host: str, seen: Seen, known: HostKnowledge, job: OpenJob | None, chain_id: int = 0
) -> VisitVerdict:
    """Return what follows from the facts that a visit read.

    Args:
        host: id of the host, for messages.
        seen: the facts.
        known: what the store contains about the host.
        job: job of the visit; None: it has none.
        chain_id: the chain that the job starts; 0: it starts none.
    """
    if known.machine_id and known.open_chains and seen.machine_id != known.machine_id:
        labels = ", ".join(known.open_chains.values())
        return VisitVerdict(
            go=False,
            person=(
                f"its machine id is {seen.machine_id}, but {labels} began on a host with the "
                f"machine id {known.machine_id}; make that host reachable again, or run: "
                f"catena chain cancel {next(iter(known.open_chains))}"
            ),
        )
    verdict = _of_boot(seen, known)
    if known.paused and job is not None and not job.begun:
        return VisitVerdict(go=False, pause=known.paused, play=verdict.play)
    if chain_id and job is not None and not job.begun:
        return _of_start(host, seen, known, chain_id, verdict)
    return verdict


def _of_boot(seen: Seen, known: HostKnowledge) -> VisitVerdict:
    ours = bool(known.open_chains) and not known.resuming
    waits = _is_open(seen, known)
    asked = [*known.asked_in]
    if waits:
        asked.append(Boot(str(seen.pending.get("boot_id", "")), _text(seen, "persist_boot_time")))
    booted = any(not boot.is_same(seen.boot) for boot in asked)
    taken = waits and seen.pending.get("running") is True
    if ours and (booted or taken):
        again = known.played != _name(seen.boot) or known.long_ago
        return VisitVerdict(play=again)
    # A resume requests the reboot again. It must not run the next chunk of a paused chain.
    if ours and waits and known.overdue and known.long_ago and not known.paused:
        return VisitVerdict(remind=True)
    return VisitVerdict()


def _of_start(
    host: str, seen: Seen, known: HostKnowledge, chain_id: int, verdict: VisitVerdict
) -> VisitVerdict:
    """Return the verdict on a job that starts a chain: another chain may be in its way."""
    clear = f"catena run {host} {CLEAN}"
    if seen.fault:
        text = seen.fault.partition("; to give that chain up")[0]
        return VisitVerdict(go=False, refuse=f"{text}; to give that chain up: {clear}")
    other = _chain_of(seen)
    if not other or other == chain_id:
        return verdict
    if _is_open(seen, known):
        wait = f"waits behind {known.open_chains[other]}"
        return VisitVerdict(go=False, wait=wait, play=verdict.play, remind=verdict.remind)
    run = _ended_run(seen, known)
    if run is not None:
        return VisitVerdict(
            go=False, forget=run, wait=f"waits until {run}, which is over, is removed"
        )
    return VisitVerdict(
        go=False,
        refuse=(
            f"action chain {chain_id} can't start: chain {other}, which is unknown to this "
            f"master, waits on {host}; to give that chain up: {clear}"
        ),
    )


def _chain_of(seen: Seen) -> int:
    found = seen.pending.get("actionchain_id")
    return found if type(found) is int else 0


def _epoch_of(seen: Seen) -> int:
    found = seen.pending.get("epoch")
    return found if type(found) is int else 0


def _is_open(seen: Seen, known: HostKnowledge) -> bool:
    """Return whether the resume file names an open run, not an older one of its chain.

    A file without an epoch, which a chain started from files alone leaves, means the open run.
    """
    chain_id, epoch = _chain_of(seen), _epoch_of(seen)
    return chain_id in known.open_chains and epoch in (0, known.epochs.get(chain_id, epoch))


def _ended_run(seen: Seen, known: HostKnowledge) -> RunRef | None:
    """Return the ended run that the resume file names; without an epoch, its chain's last one."""
    run = RunRef(_chain_of(seen), _epoch_of(seen))
    if run.epoch or run in known.ended_runs:
        return run if run in known.ended_runs else None
    mine = (ended for ended in known.ended_runs if ended.chain_id == run.chain_id)
    return max(mine, key=lambda ended: ended.epoch or 0, default=None)


def _text(seen: Seen, key: str) -> str:
    return str(seen.pending.get(key, ""))[:64]


def _name(boot: Boot) -> str:
    return boot.id or boot.time


# -- how a visit ends --------------------------------------------------------------------------


class VisitEnd(StrEnum):
    """How a visit ended."""

    done = "done"
    away = "away"  #: the host was not reached, or the connection was lost; a retry may work
    person = "person"  #: the host may be another one than before; a person must check
    fault = "fault"  #: the host can't be used, or the job can't be done


@dataclass(frozen=True)
class EndedVisit:
    """How a visit ended, with a text for people."""

    end: VisitEnd
    text: str = ""
    #: Seconds after a successful visit before the next one; 0: as soon as there is work.
    pause: float = 0.0


@dataclass(frozen=True)
class Leave:
    """The new state of a host after a visit."""

    event: HostEvent
    detail: str = ""
    #: Earliest time of the next visit, seconds since the epoch.
    due: float = 0.0
    #: Number of visits in a row that did not reach the host, including this one.
    tries: int = 0
    #: Why the job, which has not begun, is rejected; "": it is not.
    reject: str = ""


def leave(ended: EndedVisit, job: OpenJob | None, tries: int, now: float) -> Leave:
    """Return the new state of a host after a visit.

    Args:
        ended: how the visit ended.
        job: the visit's job in its state at the end of the visit; None: it had none.
        tries: number of visits in a row before this one that did not reach the host.
        now: seconds since the epoch.
    """
    pause = PAUSES[min(tries, len(PAUSES) - 1)]
    if ended.end is VisitEnd.done:
        return Leave(HostEvent.leave, ended.text, now + ended.pause if ended.pause else 0.0)
    if ended.end is VisitEnd.person:
        return Leave(HostEvent.refuse, ended.text, now + PERSON_SECONDS, tries + 1)
    if ended.end is VisitEnd.away:
        return Leave(HostEvent.lose, ended.text, now + pause, tries + 1)
    if job is not None and not job.begun and job.fun != RESUME:
        # Nothing has run on the host, so the job fails and its caller can decide what to do.
        return Leave(HostEvent.leave, "", 0.0, 0, ended.text)
    return Leave(HostEvent.fail, ended.text, now + PERSON_SECONDS, tries + 1)


# -- for people --------------------------------------------------------------------------------


def status_text(facts: HostFacts, detail: str, since: str, again: str, behind: bool) -> str:
    """Return the status of a host as text; "" if there is nothing to report.

    Args:
        facts: of the host.
        detail: reason of the host's state.
        since: time of day at which the state began.
        again: time of day of the next visit; "": none is planned.
        behind: whether its chain waits for another one on the host.
    """
    goes_on = any(job.begun and is_resumable(job.fun) for job in facts.jobs)
    later = f", next try at {again}" if again else ""
    if facts.state is HostState.visited and facts.tries:
        return f"over SSH: not reached since {since}, retrying now"
    if facts.state is HostState.visited:
        return f"over SSH: {detail or 'connect'} since {since}"
    if facts.state is HostState.away:
        waits = "; its running job continues and keeps the result" if goes_on else ""
        return f"over SSH: not reached since {since} ({detail}){later}{waits}"
    if facts.state is HostState.refused:
        return f"over SSH: waits for a person since {since}: {detail}"
    if facts.state is HostState.unfit:
        return f"over SSH: can't be used since {since}: {detail}"
    if not facts.seen:
        return "over SSH: waits for its first visit"
    if facts.jobs and all(job.state is Delivery.paused for job in facts.jobs):
        return "over SSH: nothing is sent, its chain must wait"
    if facts.state is HostState.wanted and not behind:
        return "over SSH: waits for a free visit slot"
    if facts.looks and again:
        return f"over SSH: next visit at {again}"
    return f"over SSH: {detail}{later}" if detail else ""
