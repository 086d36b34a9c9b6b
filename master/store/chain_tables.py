"""Tables of action chains. Times are seconds since the epoch, UTC.

The names of the reference in brackets: rhnActionChain, rhnActionChainEntry, rhnAction,
rhnServerAction. Ids of chains and actions are never used twice: minions keep journals under them.
"""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, Packed, Serial, Words

#: [rhnActionChain]
CHAINS = sa.Table(
    "chain",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("label", sa.String(256), nullable=False, index=True),
    sa.Column("user", sa.String(64), nullable=False),
    #: Life cycle in catena.master.chains.lifecycle.
    sa.Column("state", sa.String(24), nullable=False, index=True),
    #: Why it stands there, for people.
    sa.Column("reason", Words, nullable=False, server_default=""),
    #: Grows with every dispatch and cancel.
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("modified", sa.Double, nullable=False),
    #: When it shall start; NULL before it is scheduled.
    sa.Column("due", sa.Double, index=True),
    #: Both clocks of the master's host when it was scheduled.
    sa.Column("anchor_wall", sa.Double, nullable=False, server_default="0"),
    sa.Column("anchor_mono", sa.Double, nullable=False, server_default="0"),
    sa.Column("anchor_boot", sa.String(64), nullable=False, server_default=""),
    sa.Column("approved_by", sa.String(64), nullable=False, server_default=""),
    sa.Column("dispatched", sa.Boolean(name="dispatched"), nullable=False),
    sa.Column("ended", sa.Double),
    sa.Column("archived", sa.Boolean(name="archived"), nullable=False, index=True),
    sqlite_autoincrement=True,
)

#: [rhnAction], one for every minion.
ACTIONS = sa.Table(
    "chain_action",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column(
        "chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), nullable=False, index=True
    ),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("data", Packed, nullable=False),
    #: What a crash between begin and end means.
    sa.Column("repeat", sa.String(16), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sqlite_autoincrement=True,
)

#: [rhnActionChainEntry]
ENTRIES = sa.Table(
    "chain_entry",
    METADATA,
    sa.Column("action_id", sa.ForeignKey(ACTIONS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("minion", sa.String(253), nullable=False),
    #: Counted from 0; entries of several minions share it.
    sa.Column("sort_order", sa.Integer, nullable=False),
    sa.UniqueConstraint(
        "chain_id", "minion", "sort_order", name="uq_chain_entry_chain_id_minion_sort_order"
    ),
)

#: [rhnServerAction]: one action on one minion in one run of its chain.
EXECUTIONS = sa.Table(
    "execution",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("action_id", sa.ForeignKey(ACTIONS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("minion", sa.String(253), nullable=False),
    sa.Column("sort_order", sa.Integer, nullable=False),
    sa.Column("state", sa.String(24), nullable=False),
    #: "Prerequisite failed", "interrupted", "reboot" while it waits for the boot, ...
    sa.Column("reason", Words, nullable=False, server_default=""),
    #: 0 before it is rendered.
    sa.Column("chunk", sa.Integer, nullable=False, server_default="0"),
    #: What proves it after its success: none, reboot, agent_upgrade.
    sa.Column("waits_for", sa.String(16), nullable=False, server_default="none"),
    #: How long a reboot itself puts it off.
    sa.Column("delay_seconds", sa.Double, nullable=False, server_default="0"),
    #: When it succeeded but for its proof, by both clocks of the master's host.
    sa.Column("picked_up", sa.Double),
    sa.Column("picked_mono", sa.Double, nullable=False, server_default="0"),
    sa.Column("picked_host_boot", sa.String(64), nullable=False, server_default=""),
    #: Machine id of that host; "" if unknown.
    sa.Column("picked_host", sa.String(64), nullable=False, server_default=""),
    #: Boot of the minion under which it succeeded.
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("ended", sa.Double),
    sa.Column("retcode", sa.Integer),
    sa.Column("comment", Words, nullable=False, server_default=""),
    sa.Column("changes", Packed),
    sa.UniqueConstraint("action_id", "epoch", name="uq_execution_action_id_epoch"),
    sa.Index("ix_execution_chain_id_minion", "chain_id", "minion"),
    sa.Index("ix_execution_chain_id_state", "chain_id", "state"),
    sa.Index("ix_execution_state", "state"),
)

#: One run of a chain on one minion: what was sent.
RUNS = sa.Table(
    "chain_run",
    METADATA,
    sa.Column("chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("machine_id", sa.String(64), nullable=False),
    #: Job that starts it; "" until that job is stored.
    sa.Column("jid", sa.String(20), nullable=False, server_default="", index=True),
    #: core.job.ChainManifest as plain data.
    sa.Column("manifest", Packed, nullable=False),
    #: Boot that the minion was known to be in last.
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("open", sa.Boolean(name="open"), nullable=False),
    #: The minion has to forget this run, and has not confirmed that it did.
    sa.Column("fence", sa.Boolean(name="fence"), nullable=False, server_default=sa.false()),
    #: Job that is to make it forget; "": none is under way.
    sa.Column("fence_jid", sa.String(20), nullable=False, server_default=""),
    #: How many such jobs failed in a row, when the last one did, and why.
    sa.Column("fence_tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("fence_at", sa.Double, nullable=False, server_default="0"),
    sa.Column("fence_why", Words, nullable=False, server_default=""),
    #: Why the minion says that it can't go on with this open run; "": it has not said so.
    sa.Column("disowned", Words, nullable=False, server_default=""),
    #: It is carried out over SSH, to its end: whatever answers to the minion's name meanwhile.
    sa.Column("over_ssh", sa.Boolean(name="over_ssh"), nullable=False, server_default=sa.false()),
    sa.Index("ix_chain_run_minion_open", "minion", "open"),
)
# The few of all that ever ran: whoever asks for them, each second, must not read the others.
for _name, _ordered, _which in (
    ("ix_chain_run_open_jid", RUNS.c.jid, RUNS.c.open),
    ("ix_chain_run_fence_chain_id", RUNS.c.chain_id, RUNS.c.fence),
    ("ix_chain_run_fence_minion", RUNS.c.minion, RUNS.c.fence),
):
    sa.Index(
        _name, _ordered, sqlite_where=_which == sa.true(), postgresql_where=_which == sa.true()
    )

#: One chunk file of one minion.
CHUNKS = sa.Table(
    "chain_chunk",
    METADATA,
    sa.Column("chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("file", sa.String(255), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("boundary", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
)

#: Every transition of a chain, execution or chunk, and every late word of a minion.
HISTORY = sa.Table(
    "chain_history",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column(
        "chain_id", sa.ForeignKey(CHAINS.c.id, ondelete="CASCADE"), nullable=False, index=True
    ),
    #: "chain", "action", "chunk", "late".
    sa.Column("subject", sa.String(16), nullable=False),
    #: Action id or chunk number; 0 for the chain.
    sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("minion", sa.String(253), nullable=False, server_default=""),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("source", sa.String(24), nullable=False, server_default=""),
    sa.Column("event", sa.String(24), nullable=False),
    sa.Column("target", sa.String(24), nullable=False, server_default=""),
    #: Who caused it: a user's name, a minion's id, or "" for the master itself.
    sa.Column("by", sa.String(253), nullable=False, server_default=""),
    sa.Column("reason", Words, nullable=False, server_default=""),
    sa.Column("at", sa.Double, nullable=False),
)

#: First reading of both clocks in each boot of a master's host.
CLOCKS = sa.Table(
    "clock_anchor",
    METADATA,
    sa.Column("boot_id", sa.String(64), primary_key=True),
    sa.Column("wall", sa.Double, nullable=False),
    sa.Column("mono", sa.Double, nullable=False),
)
