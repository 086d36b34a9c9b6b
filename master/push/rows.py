"""Queries on hosts that are reached over SSH; each runs in its caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.chain_calls import RESUME, START
from catena.core.fsm import Actor
from catena.core.job import Boundary
from catena.master.chains import decide as chain_decide
from catena.master.chains import rows as chain_rows
from catena.master.chains.lifecycle import MinionState
from catena.master.chains.model import OPEN_MINIONS, ChainExecution, ChainMinion
from catena.master.executions import leases
from catena.master.executions.ledger import PlainLifeCycle
from catena.master.executions.lifecycle import OPEN as OPEN_STATUSES
from catena.master.executions.lifecycle import ExecutionState
from catena.master.jobs.delivery import OPEN, Delivery
from catena.master.process.clocks import ClockReading, passed
from catena.master.push import decide
from catena.master.push.decide import HostFacts, OpenJob
from catena.master.push.lifecycle import HOST, HostEvent, HostState
from catena.master.store.chain_tables import CHAIN_MINIONS, CHAINS, LIVE
from catena.master.store.execution_tables import EXECUTIONS
from catena.master.store.lists import slices
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import DELIVERIES, JOBS

#: Maximum number of parameters in one list of a query; SQLite allows 32 766 in total.
SLICE = 5000
#: States of a run that has not ended on a host.
_UNENDED = [state.value for state in (MinionState.pending, *OPEN_MINIONS)]
OPEN_STATES = [state.value for state in OPEN]
#: Subject of the leases of visited hosts.
LEASED = "ssh_host"
_MOVES = PlainLifeCycle(SSH_HOSTS, HOST, ("id",))


class HostRecord(NamedTuple):
    """A host as it is stored; times are seconds since the epoch."""

    id: str
    state: str
    #: What it waits for, or what the visit does; for people.
    detail: str
    #: Last change of `state`.
    since: float
    #: Earliest time of the next visit.
    due: float
    #: Number of consecutive visits that did not reach it.
    tries: int
    #: Found by the last visit; "" before the first.
    machine_id: str
    boot_id: str
    #: The last boot for which a start event was fired, and the time of that.
    played: str
    played_at: float


_HOST_ROWS: sa.Select[Any] = sa.select(*(SSH_HOSTS.c[name] for name in HostRecord._fields))


def _hosts(conn: sa.Connection, query: sa.Select[Any]) -> dict[str, HostRecord]:
    """Return the hosts of a query that is made from _HOST_ROWS, by id."""
    return {row.id: HostRecord._make(row) for row in conn.execute(query)}


def want(conn: sa.Connection, ids: Iterable[str], now: float, *, look: bool = False) -> list[str]:
    """Request visits of hosts; return the ids of those that were resting, unfit or new.

    Args:
        conn: the running transaction.
        ids: of the hosts.
        now: seconds since the epoch.
        look: only hosts that were never visited.
    """
    moved = []
    for name in sorted(set(ids)):
        row = host(conn, name)
        if row is None:
            values = {"id": name, "state": HostState.wanted.value, "since": now}
            conn.execute(sa.insert(SSH_HOSTS).values(values))
            moved.append(name)
            continue
        if look and row.machine_id:
            continue
        if HOST.allows(HostState(row.state), HostEvent.want):
            move(conn, row, HostEvent.want, Actor.system, now, due=0.0, detail="")
            moved.append(name)
    return moved


def move(
    conn: sa.Connection,
    row: HostRecord,
    event: HostEvent,
    actor: Actor,
    now: float,
    **values: Any,
) -> bool:
    """Apply an event to a host; return False if its state does not allow it or has changed.

    Repeated failed visits do not change the time since which the host is not reached.

    Raises:
        ActorError: *actor* may not cause the event.
    """
    source = HostState(row.state)
    if not HOST.allows(source, event):
        return False
    found = {"since": now, **values}
    if values.get("tries", row.tries) > 1 or (event is HostEvent.visit and row.tries):
        del found["since"]
    statement = _MOVES.some(SSH_HOSTS.c.id == row.id, *found)
    given = {f"v_{name}": value for name, value in found.items()}
    return _MOVES.move_some(conn, statement, given, (source, event), actor) == 1


def host(conn: sa.Connection, name: str) -> HostRecord | None:
    """Return one host; None if no visit of it was ever requested."""
    row = conn.execute(_HOST_ROWS.where(SSH_HOSTS.c.id == name)).first()
    return None if row is None else HostRecord._make(row)


def known_ids(conn: sa.Connection) -> Sequence[str]:
    """Return the ids of all hosts for which a visit was ever requested."""
    return conn.execute(sa.select(SSH_HOSTS.c.id)).scalars().all()


def set_detail(conn: sa.Connection, name: str, detail: str) -> None:
    """Store the text that is displayed for a host, at most 300 characters."""
    rule = SSH_HOSTS.c.id == name
    conn.execute(sa.update(SSH_HOSTS).where(rule).values(detail=detail[:300]))


def without_lease(conn: sa.Connection, now: float) -> list[HostRecord]:
    """Return the visited hosts whose lease has expired."""
    visited = SSH_HOSTS.c.state == HostState.visited.value
    live = leases.is_live(LEASED, SSH_HOSTS.c.id, now)
    return list(_hosts(conn, _HOST_ROWS.where(visited, sa.not_(live))).values())


def hosts(conn: sa.Connection, names: Collection[str]) -> dict[str, HostRecord]:
    """Return those of *names* that somebody ever asked for, by id."""
    found: dict[str, HostRecord] = {}
    for some in slices(list(names), SLICE):
        found |= _hosts(conn, _HOST_ROWS.where(SSH_HOSTS.c.id.in_(some)))
    return found


def with_open_jobs(conn: sa.Connection, names: Collection[str]) -> list[str]:
    """Return those of *names* that have an open job."""
    found: list[str] = []
    for some in slices(list(names), SLICE):
        rule = DELIVERIES.c.minion.in_(some)
        query = sa.select(DELIVERIES.c.minion).where(rule, DELIVERIES.c.state.in_(OPEN_STATES))
        found += conn.execute(query.distinct()).scalars()
    return found


@dataclass(frozen=True)
class HostOverview:
    """Rows and facts of all hosts for which a visit was ever requested, by id."""

    rows: Mapping[str, HostRecord]
    facts: Mapping[str, HostFacts]
    #: Hosts with an open run.
    busy: frozenset[str] = frozenset()


@dataclass
class _Gathered:
    jobs: list[OpenJob] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)


def overview(conn: sa.Connection, now: ClockReading, again: float) -> HostOverview:
    """Return rows and facts of all hosts.

    Args:
        conn: a snapshot.
        now: both clocks.
        again: seconds after a requested reboot at which the host is visited.
    """
    found = _hosts(conn, _HOST_ROWS)
    if not found:
        return HostOverview({}, {})
    return _overview(conn, found, sa.select(SSH_HOSTS.c.id), now, again)


def _overview(
    conn: sa.Connection,
    found: Mapping[str, HostRecord],
    ours: sa.Select[tuple[str]],
    now: ClockReading,
    again: float,
) -> HostOverview:
    """Return the overview of the hosts *found*, whose ids *ours* selects."""
    gathered: defaultdict[str, _Gathered] = defaultdict(_Gathered)
    runs = _open_runs(conn, ours)
    for name, job in _jobs(conn, ours, runs):
        gathered[name].jobs.append(job)
    for name, at in _looks(conn, runs, now, again, gathered, found):
        gathered[name].looks.append(at)
    facts = {}
    for name, row in found.items():
        own = gathered[name]
        facts[name] = HostFacts(
            HostState(row.state),
            decide.pause_ends(row.due, now.wall, again),
            bool(row.machine_id),
            tuple(own.jobs),
            tuple(own.looks),
            row.tries,
        )
    return HostOverview(found, facts, frozenset(runs))


def _open_runs(
    conn: sa.Connection, names: sa.Select[tuple[str]]
) -> dict[str, Sequence[ChainMinion]]:
    query = chain_rows.MINION_ROWS.where(chain_rows.OPEN_RUNS, CHAIN_MINIONS.c.minion.in_(names))
    query = query.where(CHAIN_MINIONS.c.over_ssh == sa.true())
    found: defaultdict[str, list[ChainMinion]] = defaultdict(list)
    for row in chain_rows.minion_runs(conn, query.order_by(CHAIN_MINIONS.c.jid)):
        found[row.minion].append(row)
    return dict(found)


def _jobs(
    conn: sa.Connection, names: sa.Select[tuple[str]], runs: Mapping[str, Sequence[ChainMinion]]
) -> Iterable[tuple[str, OpenJob]]:
    query = (
        sa.select(DELIVERIES.c.minion, DELIVERIES.c.jid, DELIVERIES.c.state, DELIVERIES.c.cancel)
        .add_columns(JOBS.c.fun, JOBS.c.not_after)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(DELIVERIES.c.minion.in_(names), DELIVERIES.c.state.in_(OPEN_STATES))
        .order_by(DELIVERIES.c.jid)
    )
    for row in conn.execute(query):
        mine = runs.get(row.minion, ())
        behind = row.fun == START and any(run.jid < row.jid for run in mine)
        state = Delivery(row.state)
        yield row.minion, OpenJob(row.jid, row.fun, state, row.cancel, behind, row.not_after)


def _looks(
    conn: sa.Connection,
    runs: Mapping[str, Sequence[ChainMinion]],
    now: ClockReading,
    again: float,
    gathered: Mapping[str, _Gathered],
    found: Mapping[str, HostRecord],
) -> Iterable[tuple[str, float]]:
    """Yield host and time of visits without a job, seconds since the epoch.

    Such a visit is due when a reboot should be over, or when no job resumes the next chunk.
    """
    for name, mine in runs.items():
        run = mine[0]
        ours = [
            job for job in gathered[name].jobs if job.fun in (START, RESUME) and not job.behind
        ]
        if any(job.state is not Delivery.paused for job in ours):
            continue
        rows = chain_rows.executions(conn, run.run, name)
        waiting = [row for row in rows if _waits_for_boot(row)]
        if waiting:
            yield name, now.wall + min(_remaining(row, now, again) for row in waiting)
        elif not ours and any(row.state == ExecutionState.NEW.value for row in rows):
            yield name, found[name].since + again


def _waits_for_boot(row: ChainExecution) -> bool:
    running = row.state == ExecutionState.RUNNING.value and row.picked_up is not None
    return running and row.waits_for == Boundary.reboot.value


def _remaining(row: ChainExecution, now: ClockReading, again: float) -> float:
    """Return the seconds that a reboot may still take, by the monotonic clock."""
    return again + row.delay_seconds - passed(chain_rows.picked_up(row), now)


def overdue(conn: sa.Connection, run: ChainMinion, now: ClockReading, again: float) -> bool:
    """Return whether a requested reboot of a run is late enough to be requested again."""
    return any(
        chain_decide.boundary_overdue(
            chain_rows.picked_up(row),
            now,
            again + row.delay_seconds,
        )
        for row in chain_rows.executions(conn, run.run, run.minion)
        if _waits_for_boot(row)
    )


def asked_in(conn: sa.Connection, run: ChainMinion) -> list[str]:
    """Return the boot ids in which a run requested reboots that are not proven yet."""
    rows = chain_rows.executions(conn, run.run, run.minion)
    return [row.boot_id for row in rows if _waits_for_boot(row) and row.boot_id]


def open_chains(conn: sa.Connection, name: str) -> list[int]:
    """Return the ids of chains with an open or pending run on a host."""
    mine = CHAIN_MINIONS.c
    query = chain_rows.MINION_ROWS.where(LIVE, mine.minion == name, mine.state.in_(_UNENDED))
    return sorted({run.chain_id for run in chain_rows.minion_runs(conn, query)})


class HoldingHost(NamedTuple):
    """A host that blocks a dispatched chain."""

    id: str
    state: str
    detail: str
    chain: int
    label: str


def holding_chains(
    conn: sa.Connection, states: Collection[HostState], limit: int
) -> list[HoldingHost]:
    """Return at most *limit* hosts in one of *states* with open executions of a chain."""
    query = (
        sa.select(SSH_HOSTS.c.id, SSH_HOSTS.c.state, SSH_HOSTS.c.detail)
        .add_columns(CHAINS.c.id.label("chain"), CHAINS.c.label)
        .join(EXECUTIONS, EXECUTIONS.c.minion == SSH_HOSTS.c.id)
        .join(CHAINS, CHAINS.c.run == EXECUTIONS.c.run)
        .where(SSH_HOSTS.c.state.in_([state.value for state in states]))
        .where(EXECUTIONS.c.status.in_(OPEN_STATUSES), CHAINS.c.dispatched == sa.true())
        .distinct()
        .order_by(SSH_HOSTS.c.id)
    )
    return [HoldingHost(*row) for row in conn.execute(query.limit(limit))]


def status_texts(
    conn: sa.Connection,
    names: Collection[str],
    ahead: Collection[str],
    now: ClockReading,
    again: float,
) -> dict[str, str]:
    """Return host -> its status as text, for those of *names* that are SSH hosts.

    Args:
        conn: a snapshot.
        names: ids of minions and hosts.
        ahead: those of them whose chain waits for another one there.
        now: both clocks.
        again: seconds after a requested reboot at which the host is visited.
    """
    known = hosts(conn, names)
    ours = sa.select(SSH_HOSTS.c.id).where(SSH_HOSTS.c.id.in_(list(known)))
    found = {}
    for name, facts in _overview(conn, known, ours, now, again).facts.items() if known else ():
        row, at = known[name], decide.next_time(facts)
        later = _time(at) if at is not None and at > now.wall else ""
        since = _time(row.since)
        found[name] = decide.status_text(facts, row.detail, since, later, name in ahead)
    return found


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def delivery(conn: sa.Connection, jid: str, name: str) -> OpenJob | None:
    """Return one job of a host in its current state; None if it has ended."""
    query = (
        sa.select(DELIVERIES.c.state, DELIVERIES.c.cancel, JOBS.c.fun)
        .join(JOBS, JOBS.c.jid == DELIVERIES.c.jid)
        .where(DELIVERIES.c.jid == jid, DELIVERIES.c.minion == name)
    )
    row = conn.execute(query).first()
    if row is None or row.state not in OPEN_STATES:
        return None
    return OpenJob(jid, row.fun, Delivery(row.state), row.cancel)
