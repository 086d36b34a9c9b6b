"""Tables of action chains. Times are seconds since the epoch, UTC.

The names of the reference are in brackets: rhnActionChain, rhnActionChainEntry, rhnAction,
rhnServerAction. Ids of chains and actions are never reused, because minions keep journals under
them. A chain without a run is a draft; each attempt is a row of `run` with the next epoch.
"""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.execution_tables import EXECUTIONS, RUNS
from catena.master.store.metadata import METADATA, MessagePackType, Serial, Words

#: [rhnActionChain]
CHAINS = sa.Table(
    "chain",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("label", sa.String(256), nullable=False, index=True),
    sa.Column("user", sa.String(64), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    #: Its newest run, which determines the chain's state; NULL: a draft.
    sa.Column("run", Serial, index=True),
    #: Whether a run of it was ever dispatched.
    sa.Column("dispatched", sa.Boolean(name="dispatched"), nullable=False),
    sa.Column("archived", sa.Boolean(name="archived"), nullable=False, index=True),
    sqlite_autoincrement=True,
)

#: [rhnAction], one row per minion.
ACTIONS = sa.Table(
    "action",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column(
        "chain_id",
        # The name is from before schema 0013, when the table was called `chain_action`.
        sa.ForeignKey(CHAINS.c.id, name="fk_chain_action_chain_id_chain", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("data", MessagePackType, nullable=False),
    #: How the action recovers from a crash between begin and end.
    sa.Column("repeat", sa.String(16), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sqlite_autoincrement=True,
)

#: [rhnActionChainEntry]
ENTRIES = sa.Table(
    "chain_entry",
    METADATA,
    sa.Column(
        "action_id",
        # The name is from before schema 0013, when `action` was called `chain_action`.
        sa.ForeignKey(
            ACTIONS.c.id, name="fk_chain_entry_action_id_chain_action", ondelete="CASCADE"
        ),
        primary_key=True,
    ),
    sa.Column("chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("minion", sa.String(253), nullable=False),
    #: Counted from 0; entries for several minions share it.
    sa.Column("sort_order", sa.Integer, nullable=False),
    sa.UniqueConstraint(
        "chain_id", "minion", "sort_order", name="uq_chain_entry_chain_id_minion_sort_order"
    ),
)

#: Columns of a chain's execution only; one row for each dispatched execution.
CHAIN_EXECUTIONS = sa.Table(
    "chain_execution",
    METADATA,
    sa.Column("execution", sa.ForeignKey(EXECUTIONS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("chunk", sa.Integer, nullable=False),
    #: Required proof after its success: none, reboot, agent_upgrade.
    sa.Column("boundary", sa.String(16), nullable=False, server_default="none"),
    #: Requested delay of a reboot.
    sa.Column("delay_seconds", sa.Double, nullable=False, server_default="0"),
    #: Time of success before the proof, by both clocks of the master's host.
    sa.Column("picked_up", sa.Double),
    sa.Column("picked_mono", sa.Double, nullable=False, server_default="0"),
    sa.Column("picked_host_boot", sa.String(64), nullable=False, server_default=""),
    #: Machine id of that host; "" if unknown.
    sa.Column("picked_host", sa.String(64), nullable=False, server_default=""),
    #: Boot of the minion in which it succeeded.
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
)

#: One run of a chain on one minion: what was sent, and the minion's progress.
CHAIN_MINIONS = sa.Table(
    "chain_minion",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("minion", sa.String(253), nullable=False),
    sa.Column("machine_id", sa.String(64), nullable=False),
    #: Job that starts it; "" until that job is stored.
    sa.Column("jid", sa.String(20), nullable=False, server_default="", index=True),
    #: core.job.ChainManifest as plain data.
    sa.Column("manifest", MessagePackType, nullable=False),
    #: Last known boot of the minion.
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    #: Life cycle in catena.master.chains.lifecycle.
    sa.Column("state", sa.String(16), nullable=False),
    #: Job that makes the minion forget the run; "": none is in progress.
    sa.Column("fence_jid", sa.String(20), nullable=False, server_default=""),
    #: Number of consecutive failures of such jobs.
    sa.Column("fence_tries", sa.Integer, nullable=False, server_default="0"),
    #: Time at which the minion last answered that it can't; 0: it has not answered so.
    sa.Column("fence_at", sa.Double, nullable=False, server_default="0"),
    #: Why such a job failed: the minion's last refusal, or without one the last failure.
    sa.Column("fence_why", Words, nullable=False, server_default=""),
    #: Why the minion reports that it cannot continue this open run; "": no such report.
    sa.Column("disowned", Words, nullable=False, server_default=""),
    #: Whether it runs over SSH until its end, even if an agent with the minion's name appears.
    sa.Column("over_ssh", sa.Boolean(name="over_ssh"), nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("run", "minion", name="uq_chain_minion_run_minion"),
)
#: Condition for the few open rows; a query with it uses the indexes below.
LIVE = CHAIN_MINIONS.c.state != sa.literal_column("'ended'")
for _name, _columns in (
    ("ix_chain_minion_live_minion", (CHAIN_MINIONS.c.minion, CHAIN_MINIONS.c.state)),
    ("ix_chain_minion_live_state", (CHAIN_MINIONS.c.state, CHAIN_MINIONS.c.jid)),
):
    sa.Index(_name, *_columns, sqlite_where=LIVE, postgresql_where=LIVE)

#: One chunk file of one minion.
CHUNKS = sa.Table(
    "chain_chunk",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("minion", sa.String(253), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("file", sa.String(255), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("boundary", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.UniqueConstraint("run", "minion", "number", name="uq_chain_chunk_run_minion_number"),
)
