"""Stores the facts that a visit read on a host, and all that follows, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from catena import __version__
from catena.core import events
from catena.core.events import Event
from catena.core.fsm import Actor
from catena.core.run_ref import RunRef
from catena.master.chains import fence_rows, run_job_rows
from catena.master.chains.holds import pause_text
from catena.master.chains.ledger import ChainLedger
from catena.master.chains.model import ChainMinion
from catena.master.executions import pauses
from catena.master.jobs import rows as job_rows
from catena.master.jobs.delivery import DeliveryEvent
from catena.master.jobs.model import Holds
from catena.master.minions import rows as minion_rows
from catena.master.process.clocks import ClockReading
from catena.master.push import decide, look_rows, rows
from catena.master.push.decide import Boot, HostKnowledge, OpenJob, Seen, VisitVerdict
from catena.master.push.messages import HostReport
from catena.transport.messages.session import AGENT_WIRE


class EventRecorder(Protocol):
    """The part of `master.events.bus.EventBus` that is needed here."""

    def record(self, conn: sa.Connection, tag: str, data: Mapping[str, Any]) -> Event:
        """Store an event in the running transaction."""


@dataclass(frozen=True)
class Looks:
    """Stores the facts of hosts, and what follows from them.

    Args:
        bus: records start events.
        clocks: reads both clocks.
        again: seconds after which a reboot that did not happen is requested again.
        holds: tells which jobs must wait.
    """

    bus: EventRecorder
    clocks: Callable[[], ClockReading]
    again: float
    holds: Holds

    def take(
        self, conn: sa.Connection, host: str, facts: HostReport, job: OpenJob | None, chain_id: int
    ) -> VisitVerdict:
        """Store the facts of a host and their consequences; return the verdict.

        Args:
            conn: the running transaction.
            host: id of the host.
            facts: what the visit reported.
            job: job of the visit; None: it has none.
            chain_id: the chain that the job starts; 0: it starts none.
        """
        now = self.clocks()
        seen = _seen(facts)
        known = self._known(conn, host, now, job)
        verdict = decide.judge(host, seen, known, job, chain_id)
        if verdict.person:
            return verdict
        row = rows.host(conn, host)
        if row is not None and row.tries:
            self.publish(conn, host, "reached", "")
        look_rows.store(conn, host, facts, now.wall)
        if verdict.play:
            self._record_start(conn, host, facts, now.wall)
        if verdict.play or verdict.remind:
            name = facts.boot_id or facts.boot_time
            look_rows.set_played(conn, host, name, now.wall)
        if verdict.pause and job is not None:
            at = (job.jid, host, job.state.value)
            job_rows.move(conn, at, DeliveryEvent.pause, Actor.system, verdict.pause, now.wall)
        if verdict.forget:
            fence_rows.forget(ChainLedger(conn, now), verdict.forget, host)
        return verdict

    def publish(self, conn: sa.Connection, host: str, what: str, detail: str) -> None:
        """Record an event about a host's state for each chain with work there.

        Args:
            conn: the running transaction.
            host: id of the host.
            what: "away", "refused", "unfit", or "reached" (again).
            detail: why, for people.
        """
        for chain_id in rows.open_chains(conn, host):
            data = {"chain": chain_id, "minion": host, "host": what, "detail": detail}
            self.bus.record(conn, events.chain(chain_id, f"host/{host}/{what}"), data)

    def _known(
        self, conn: sa.Connection, host: str, now: ClockReading, job: OpenJob | None
    ) -> HostKnowledge:
        row = rows.host(conn, host)
        runs = look_rows.runs(conn, host)
        begun = [run for run in runs if run.open and run.over_ssh]
        first = min(begun, key=lambda run: str(run.jid), default=None)
        asked = rows.asked_in(conn, first) if first is not None else []
        played_at = row.played_at if row is not None else 0.0
        return HostKnowledge(
            machine_id=row.machine_id if row is not None else "",
            open_chains={run.chain_id: run.title for run in begun},
            epochs={run.chain_id: run.epoch for run in begun},
            ended_runs=frozenset(RunRef(r.chain_id, r.epoch) for r in runs if not r.open),
            asked_in=tuple(Boot(boot) for boot in asked),
            overdue=first is not None and rows.overdue(conn, first, now, self.again),
            resuming=first is not None and _is_resuming(conn, host, first),
            paused=self._paused(conn, host, first, job),
            played=row.played if row is not None else "",
            long_ago=now.wall - played_at > self.again,
        )

    def _paused(
        self, conn: sa.Connection, host: str, first: ChainMinion | None, job: OpenJob | None
    ) -> str:
        """Return why the work of a visit must wait; "": it need not wait."""
        if job is not None:
            (spec,) = (order.spec for order in job_rows.orders(conn, job.jid, [host]))
            return self.holds.paused(conn, spec, (host,)).get(host, "")
        found = pauses.on(pauses.of_run(conn, first.run), host) if first is not None else None
        return pause_text(found) if found is not None else ""

    def _record_start(self, conn: sa.Connection, host: str, facts: HostReport, now: float) -> None:
        """Record the start event that an agent's first Hello after the boot would have caused."""
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
            # The runtime on the host comes from this master, so its version is known.
            "resume": minion_rows.resumable(AGENT_WIRE, facts.pending),
        }
        self.bus.record(conn, tag, data)


def _seen(facts: HostReport) -> Seen:
    boot = Boot(facts.boot_id, facts.boot_time)
    return Seen(facts.machine_id, boot, facts.pending, facts.fault)


def _is_resuming(conn: sa.Connection, host: str, run: ChainMinion) -> bool:
    """Return whether a job that starts or resumes a run is open."""
    ref = RunRef(run.chain_id, run.epoch)
    return run_job_rows.is_worked_on(ref, run_job_rows.open_jobs(conn, host))
