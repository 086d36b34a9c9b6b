"""What a look at a host found, taken in: one transaction stores it and all that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from catena import __version__
from catena.core import events
from catena.core.events import Event
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, run_jobs
from catena.master.chains import rows as chain_rows
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.model import ChainMinion
from catena.master.minions import rows as minion_rows
from catena.master.process.clocks import ClockReading
from catena.master.push import decide, rows
from catena.master.push.decide import Boot, Known, OpenJob, Seen, Verdict
from catena.master.push.messages import Facts
from catena.master.store.chain_tables import CHAIN_MINIONS
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import MINIONS
from catena.transport.messages.session import AGENT_WIRE


class Bus(Protocol):
    """The part of `master.events.bus.EventBus` that is needed here."""

    def record(self, conn: sa.Connection, tag: str, data: Mapping[str, Any]) -> Event:
        """Store an event in the running transaction."""


@dataclass(frozen=True)
class Looks:
    """Takes in looks.

    Args:
        bus: where start events go.
        clocks: reads both clocks.
        again: seconds after which a reboot that did not happen is asked for again.
    """

    bus: Bus
    clocks: Callable[[], ClockReading]
    again: float

    def take(
        self, conn: sa.Connection, host: str, facts: Facts, job: OpenJob | None, chain_id: int
    ) -> Verdict:
        """Store what a host said of itself; return what follows.

        Args:
            conn: the running transaction.
            host: its id.
            facts: what was found.
            job: what the visit is for.
            chain_id: of the chain that the job starts; 0: none.
        """
        now = self.clocks()
        seen = _seen(facts)
        known = self._known(conn, host, now)
        verdict = decide.judge(host, seen, known, job, chain_id)
        if verdict.person:
            return verdict
        row = rows.host(conn, host)
        if row is not None and row.tries:
            self.tell(conn, host, "reached", "")
        _store(conn, host, facts, now.wall)
        if verdict.play:
            self._play(conn, host, facts, now.wall)
        if verdict.play or verdict.remind:
            name = facts.boot_id or facts.boot_time
            values = {"played": name[:64], "played_at": now.wall}
            conn.execute(sa.update(SSH_HOSTS).where(SSH_HOSTS.c.id == host).values(values))
        if verdict.forget:
            fence_rows.forget(ChainLedger(conn, now), verdict.forget, host)
        return verdict

    def tell(self, conn: sa.Connection, host: str, what: str, detail: str) -> None:
        """Tell who watches a chain of a host what it waits for there.

        Args:
            conn: the running transaction.
            host: its id.
            what: "away", "refused", "unfit", or "reached" (again).
            detail: why, for people.
        """
        for chain_id in rows.open_chains(conn, host):
            data = {"chain": chain_id, "minion": host, "host": what, "detail": detail}
            self.bus.record(conn, events.chain(chain_id, f"host/{host}/{what}"), data)

    def _known(self, conn: sa.Connection, host: str, now: ClockReading) -> Known:
        row = rows.host(conn, host)
        of_host = chain_rows.MINION_ROWS.where(CHAIN_MINIONS.c.minion == host)
        runs = chain_rows.minion_runs(conn, of_host)
        begun = [run for run in runs if run.open and run.over_ssh]
        first = min(begun, key=lambda run: str(run.jid), default=None)
        asked = rows.asked_in(conn, first) if first is not None else []
        played_at = row.played_at if row is not None else 0.0
        return Known(
            machine_id=row.machine_id if row is not None else "",
            open_chains={run.chain_id: run.title for run in begun},
            epochs={run.chain_id: run.epoch for run in begun},
            ended_runs=frozenset(RunRef(r.chain_id, r.epoch) for r in runs if not r.open),
            asked_in=tuple(Boot(boot) for boot in asked),
            overdue=first is not None and rows.overdue(conn, first, now, self.again),
            resuming=first is not None and _is_resuming(conn, host, first),
            played=row.played if row is not None else "",
            long_ago=now.wall - played_at > self.again,
        )

    def _play(self, conn: sa.Connection, host: str, facts: Facts, now: float) -> None:
        """Make the event that an agent's first Hello after the boot would have made."""
        tag = events.minion_start(host)
        data = {
            "id": host,
            "cmd": "_minion_event",
            "pretag": None,
            "data": f"Minion {host} started",
            "tag": tag,
            "ts": now,
            "boot_id": facts.boot_id,
            "session": facts.boot_id,
            "version": __version__,
            "pending_resume": facts.pending,
            # What runs there came from this master.
            "resume": minion_rows.resumable(AGENT_WIRE, facts.pending),
        }
        self.bus.record(conn, tag, data)


def _seen(facts: Facts) -> Seen:
    boot = Boot(facts.boot_id, facts.boot_time)
    return Seen(facts.machine_id, boot, facts.pending, facts.fault)


def _is_resuming(conn: sa.Connection, host: str, run: ChainMinion) -> bool:
    """Return whether the job that starts a run, or one that resumes it, is open."""
    ref = RunRef(run.chain_id, run.epoch)
    return run_jobs.is_worked_on(ref, run_jobs.open_jobs(conn, host))


def _store(conn: sa.Connection, host: str, facts: Facts, now: float) -> None:
    own = {
        "machine_id": facts.machine_id[:64],
        "boot_id": facts.boot_id[:64],
        "boot_time": facts.boot_time[:40],
        "tries": 0,
        "since": now,
    }
    conn.execute(sa.update(SSH_HOSTS).where(SSH_HOSTS.c.id == host).values(own))
    values: dict[str, Any] = {
        "machine_id": facts.machine_id[:64],
        "version": __version__,
        "boot_id": facts.boot_id[:64],
        "session": "",
        "address": facts.address[:64],
        "grains": minion_rows.own_grains(host, dict(facts.grains)),
        "pending_resume": facts.pending,
        "last_seen": now,
    }
    if conn.execute(sa.update(MINIONS).where(MINIONS.c.id == host).values(values)).rowcount:
        return
    conn.execute(sa.insert(MINIONS).values(id=host, up=False, since=now, **values))
