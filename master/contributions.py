"""What the packages of the master contribute to its retention and to `catena doctor`.

A new package adds its lines here, and no file knows the tables of another.
"""

from __future__ import annotations

from catena.master.chains import findings as chain_findings
from catena.master.chains import retention as chain_retention
from catena.master.events import findings as event_findings
from catena.master.events import retention as event_retention
from catena.master.jobs import findings as job_findings
from catena.master.jobs import retention as job_retention
from catena.master.keys import findings as key_findings
from catena.master.minions import findings as minion_findings
from catena.master.minions import retention as minion_retention
from catena.master.process.checkup import Checks
from catena.master.push import findings as push_findings
from catena.master.requests import retention as request_retention
from catena.master.store import growth

#: In the order in which rows are dropped: jobs take their events with them.
RETENTION = (
    job_retention.retention(in_use=[chain_retention.JOBS_IN_USE]),
    event_retention.RETENTION,
    chain_retention.RETENTION,
    minion_retention.RETENTION,
    request_retention.RETENTION,
)

#: In the order in which findings are shown.
CHECKS = Checks(
    host=(key_findings.pair,),
    store=(
        key_findings.waiting,
        minion_findings.check,
        chain_findings.check,
        push_findings.check,
        event_findings.lag,
        growth.findings,
        event_findings.reactions,
        job_findings.check,
        event_findings.damaged,
        event_findings.clock,
    ),
)
