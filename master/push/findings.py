"""What `catena doctor` says of hosts over SSH that hold a chain."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.master.executions.lifecycle import OPEN
from catena.master.push.lifecycle import HostState
from catena.master.store.chain_tables import CHAINS
from catena.master.store.execution_tables import EXECUTIONS
from catena.master.store.ssh_tables import SSH_HOSTS

_SHOWN = 5


def check(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the hosts over SSH that hold a chain, and why."""
    stuck = (HostState.away.value, HostState.refused.value, HostState.unfit.value)
    query = (
        sa.select(SSH_HOSTS.c.id, SSH_HOSTS.c.state, SSH_HOSTS.c.detail)
        .add_columns(CHAINS.c.id.label("chain"), CHAINS.c.label)
        .join(EXECUTIONS, EXECUTIONS.c.minion == SSH_HOSTS.c.id)
        .join(CHAINS, CHAINS.c.run == EXECUTIONS.c.run)
        .where(SSH_HOSTS.c.state.in_(stuck), EXECUTIONS.c.status.in_(OPEN))
        .where(CHAINS.c.dispatched == sa.true())
        .distinct()
        .order_by(SSH_HOSTS.c.id)
    )
    for row in conn.execute(query.limit(_SHOWN)):
        level = Level.note if row.state == HostState.away.value else Level.warning
        text = f"{row.id} holds chain {row.label!r} ({row.chain}): {row.detail}"
        yield Finding("ssh", level, text, f"catena chain show {row.chain}")
