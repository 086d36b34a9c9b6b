"""Contributions of the master's packages to retention and to `catena doctor`.

A new package adds its lines here; an engine is already in `master.engines`. No module knows the
tables of another package.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.master.engines import ENGINES, EngineClass
from catena.master.events import findings as event_findings
from catena.master.events import retention as event_retention
from catena.master.jobs import findings as job_findings
from catena.master.jobs import retention as job_retention
from catena.master.keys import findings as key_findings
from catena.master.minions import findings as minion_findings
from catena.master.minions import retention as minion_retention
from catena.master.process.checkup import Checks
from catena.master.process.retention import Retention
from catena.master.push import findings as push_findings
from catena.master.requests import retention as request_retention
from catena.master.store import growth


def retention(engines: Sequence[EngineClass] = ENGINES) -> tuple[Retention, ...]:
    """Return the retentions of all packages, in the order in which they run."""
    in_use = [query for engine in engines for query in engine.jobs_in_use]
    return (
        # Deleting a job also deletes its events.
        job_retention.retention(in_use),
        event_retention.RETENTION,
        *(rule for engine in engines for rule in engine.retention),
        minion_retention.RETENTION,
        request_retention.RETENTION,
    )


def checks(engines: Sequence[EngineClass] = ENGINES) -> Checks:
    """Return the checks of `catena doctor`, in the order in which their findings are shown."""
    return Checks(
        host=(key_findings.pair,),
        store=(
            key_findings.waiting,
            minion_findings.check,
            *(check for engine in engines for check in engine.findings),
            push_findings.check,
            event_findings.lag,
            growth.findings,
            event_findings.reactions,
            job_findings.check,
            event_findings.damaged,
            event_findings.unreadable,
            event_findings.clock,
        ),
    )
