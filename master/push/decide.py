"""What is to be done with a host that SSH reaches: every decision, as functions of facts.

No I/O, no clock. The worker gathers facts, asks here, and stores what comes out.
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

#: Pauses between visits of a host that is not reached, seconds; the last one stays.
PAUSES = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
#: How often a host is tried again that a person has to look at: once they have, it goes on.
PERSON_SECONDS = 10.0
#: Boots that began within this of each other are one, where there is nothing better to tell.
SAME_BOOT_SECONDS = 3.0


# -- who is visited when -----------------------------------------------------------------------


@dataclass(frozen=True)
class OpenJob:
    """A job that a host has not ended."""

    jid: str
    fun: str
    state: Delivery
    #: Why it is called off; "": it is not.
    cancel: str = ""
    #: Of a job that starts a chain: another chain is before it on the host, and has not ended.
    behind: bool = False
    #: It may not begin any more after this, by `jobs.steady`; 0: at any time.
    not_after: float = 0.0

    @property
    def begun(self) -> bool:
        """Return whether the host may have begun it."""
        return self.state in UNDER_WAY and self.state is not Delivery.sent


#: Deliveries that no visit takes: those held back by a batch or a pause.
_NOT_NOW = (Delivery.held, Delivery.paused)


@dataclass(frozen=True)
class HostFacts:
    """What is known of a host, and what is open there."""

    state: HostState
    #: It is not visited before, seconds since the epoch.
    due: float = 0.0
    #: Whether it was ever looked at.
    seen: bool = True
    jobs: tuple[OpenJob, ...] = ()
    #: Times from which a look is due: a reboot that has had its time, a chunk that nobody resumed.
    looks: tuple[float, ...] = ()
    #: Visits in a row that did not get to it.
    tries: int = 0


def pause_ends(due: float, now: float, again: float) -> float:
    """Return when a pause is over that was to last until *due*.

    No pause is longer than the longest: a later end was told by a clock that was set back since.

    Args:
        due: as it was stored, seconds since the epoch.
        now: seconds since the epoch.
        again: seconds after which a host whose reboot was asked for is looked at.
    """
    return due if due <= now + max(PAUSES[-1], PERSON_SECONDS, again) else 0.0


@dataclass(frozen=True)
class Errand:
    """What a visit is for: one job, or only a look."""

    job: OpenJob | None = None


def errand(facts: HostFacts, now: float) -> Errand | None:
    """Return what a visit is to be for now; None: there is none, or it has to wait."""
    if facts.state is HostState.visited or facts.due > now:
        return None
    job = _job(facts)
    if job is not None:
        return Errand(job)
    look = any(at <= now for at in facts.looks)
    never = not facts.seen and facts.state in (HostState.wanted, HostState.away, HostState.refused)
    return Errand() if look or never else None


def _job(facts: HostFacts) -> OpenJob | None:
    """Return the job whose turn it is.

    What was begun is followed first; a chain that is to be forgotten goes before one that starts.
    """
    ready = [job for job in facts.jobs if not job.behind and job.state not in _NOT_NOW]

    def turn(job: OpenJob) -> tuple[int, int, str]:
        return (0 if job.begun else 1, 1 if job.fun == START else 0, job.jid)

    return min(ready, key=turn, default=None)


def too_late(facts: HostFacts, now: float) -> list[OpenJob]:
    """Return the jobs that were sent on their way and can't begin any more.

    Args:
        facts: of their host.
        now: by `jobs.steady`.
    """
    if facts.state is HostState.visited:
        return []
    sent = (job for job in facts.jobs if job.state is Delivery.sent)
    return [job for job in sent if 0 < job.not_after < now]


def next_time(facts: HostFacts) -> float | None:
    """Return when a visit may be due; None: not before something changes."""
    if facts.state is HostState.visited:
        return None
    if _job(facts) is not None or (not facts.seen and facts.state is not HostState.unfit):
        return facts.due
    return max(facts.due, min(facts.looks)) if facts.looks else None


def rests(facts: HostFacts) -> bool:
    """Return whether nothing is to be done at a host that stands otherwise."""
    idle = not facts.jobs and not facts.looks
    return idle and facts.seen and facts.state not in (HostState.resting, HostState.visited)


# -- what a look at a host means ---------------------------------------------------------------


@dataclass(frozen=True)
class Boot:
    """One boot of a host."""

    id: str
    #: When it began, ISO 8601; "" where it is unknown.
    time: str = ""

    def is_same(self, other: Boot) -> bool:
        """Return whether two readings are of one boot.

        The ids say so. Where a host has none, times that differ by no more than clocks do.
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
    """What a visit found."""

    machine_id: str
    boot: Boot
    #: What the resume file says, {} without one.
    pending: Mapping[str, Any] = field(default_factory=dict)
    #: Why it can't be read; "": it can.
    fault: str = ""


@dataclass(frozen=True)
class HostKnowledge:
    """What the master knows of the host at that moment."""

    #: "": it was never looked at.
    machine_id: str = ""
    #: Chains with an open run there -> their title; and runs of this master that are over there.
    open_chains: Mapping[int, str] = field(default_factory=dict)
    ended_runs: frozenset[RunRef] = frozenset()
    #: Which run of each open chain is open.
    epochs: Mapping[int, int] = field(default_factory=dict)
    #: Boots in which reboots were asked for that are not proven yet.
    asked_in: tuple[Boot, ...] = ()
    #: A reboot that was asked for has had all the time that it may take.
    overdue: bool = False
    #: A job that starts or resumes a chain is open there.
    resuming: bool = False
    #: Why the visit's job, or the run that has begun there, must wait; "": it may go on.
    paused: str = ""
    #: The boot of which a start event was made last.
    played: str = ""
    #: That event, or the last reminder, was a while ago.
    long_ago: bool = True


@dataclass(frozen=True)
class VisitVerdict:
    """What follows from a look."""

    #: The job may run.
    go: bool = True
    #: The job is refused; why.
    refuse: str = ""
    #: A person must look; why.
    person: str = ""
    #: The host has booted: make its start event, which proves reboots and resumes.
    play: bool = False
    #: The reboot that it was to make did not happen: ask for it again.
    remind: bool = False
    #: A run that is over here and waits there: have it forgotten, and wait with the job.
    forget: RunRef | None = None
    #: What it waits for, for people.
    wait: str = ""
    #: The job is not to begin until its chain may go on: why it must wait.
    pause: str = ""


def judge(
    host: str, seen: Seen, known: HostKnowledge, job: OpenJob | None, chain_id: int = 0
) -> VisitVerdict:
    """Return what a look at a host means.

    Args:
        host: its id, for messages.
        seen: what was found.
        known: what the master knows.
        job: what the visit is for; None: only a look.
        chain_id: of the chain that the job starts; 0: it starts none.
    """
    if known.machine_id and known.open_chains and seen.machine_id != known.machine_id:
        labels = ", ".join(known.open_chains.values())
        return VisitVerdict(
            go=False,
            person=(
                f"its machine id is {seen.machine_id}, and that of the host that began "
                f"{labels} is {known.machine_id}: bring that host back, or: "
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
    # A resume asks for the reboot again: it must not run the next chunk of a paused chain.
    if ours and waits and known.overdue and known.long_ago and not known.paused:
        return VisitVerdict(remind=True)
    return VisitVerdict()


def _of_start(
    host: str, seen: Seen, known: HostKnowledge, chain_id: int, verdict: VisitVerdict
) -> VisitVerdict:
    """Look for another chain before one starts."""
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
        return VisitVerdict(go=False, forget=run, wait=f"{run}, which is over, is cleared")
    return VisitVerdict(
        go=False,
        refuse=(
            f"action chain {chain_id} can't start: chain {other}, of which this master knows "
            f"nothing, waits on {host}; to give that one up: {clear}"
        ),
    )


def _chain_of(seen: Seen) -> int:
    found = seen.pending.get("actionchain_id")
    return found if type(found) is int else 0


def _epoch_of(seen: Seen) -> int:
    found = seen.pending.get("epoch")
    return found if type(found) is int else 0


def _is_open(seen: Seen, known: HostKnowledge) -> bool:
    """Return whether the run that the resume file names is under way, and no older one.

    A file without an epoch, as a chain started from files alone leaves it, means the open run.
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
    away = "away"  #: not reached, or lost; the same may work later
    person = "person"  #: not the host that it was, or nobody knows whether it is
    fault = "fault"  #: it can't be used, or what it was given can't be done


@dataclass(frozen=True)
class EndedVisit:
    """How a visit ended, and the line for people."""

    end: VisitEnd
    text: str = ""
    #: After a visit that did what it was for: seconds until the next one, unless it is asked for.
    pause: float = 0.0


@dataclass(frozen=True)
class Leave:
    """Where the host stands after a visit."""

    event: HostEvent
    detail: str = ""
    #: It is not visited again before, seconds since the epoch.
    due: float = 0.0
    #: Visits in a row that did not get to it, this one included.
    tries: int = 0
    #: The job is over: it was never begun, and can't be; why.
    reject: str = ""


def leave(ended: EndedVisit, job: OpenJob | None, tries: int, now: float) -> Leave:
    """Return where a host stands after a visit.

    Args:
        ended: how the visit ended.
        job: what it was for, as it stood when the visit ended; None: only a look.
        tries: visits in a row that did not get to it before.
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
        # Nothing has happened there: whoever asked knows best what to do about it.
        return Leave(HostEvent.leave, "", 0.0, 0, ended.text)
    return Leave(HostEvent.fail, ended.text, now + PERSON_SECONDS, tries + 1)


# -- for people --------------------------------------------------------------------------------


def words(facts: HostFacts, detail: str, since: str, again: str, behind: bool) -> str:
    """Return in words where a host stands; "" where there is nothing to say.

    Args:
        facts: of the host.
        detail: why it stands there.
        since: clock time when it came to stand there.
        again: clock time of the next visit, "" without.
        behind: its chain waits for another one there.
    """
    goes_on = any(job.begun and is_resumable(job.fun) for job in facts.jobs)
    later = f", again at {again}" if again else ""
    if facts.state is HostState.visited and facts.tries:
        return f"over SSH: not reached since {since}, tried again now"
    if facts.state is HostState.visited:
        return f"over SSH: {detail or 'connect'} since {since}"
    if facts.state is HostState.away:
        waits = "; what runs there goes on and waits for the master" if goes_on else ""
        return f"over SSH: not reached since {since} ({detail}){later}{waits}"
    if facts.state is HostState.refused:
        return f"over SSH: waits for a person since {since}: {detail}"
    if facts.state is HostState.unfit:
        return f"over SSH: can't be used since {since}: {detail}"
    if not facts.seen:
        return "over SSH: to be looked at"
    if facts.jobs and all(job.state is Delivery.paused for job in facts.jobs):
        return "over SSH: nothing is sent, its chain must wait"
    if facts.state is HostState.wanted and not behind:
        return "over SSH: waits for a free place"
    if facts.looks and again:
        return f"over SSH: looked at again at {again}"
    return f"over SSH: {detail}{later}" if detail else ""
