"""Tables that all engines share. Times are seconds since the epoch, UTC.

A run is a requested piece of work; an execution is one unit of it on one minion. `state` is the
engine's own name, `status` one of the eight common states.
"""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, MessagePackType, Serial, Words

#: Required agreements before a run or a job may start.
APPROVALS = sa.Table(
    "approval",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    #: "run" or "job".
    sa.Column("subject", sa.String(24), nullable=False),
    sa.Column("subject_id", sa.String(64), nullable=False),
    #: SHA-256 of the approved content; "" in approvals that are older than this column.
    sa.Column("content_hash", sa.String(64), nullable=False, server_default=""),
    sa.Column("asked_by", sa.String(64), nullable=False),
    #: Names of operators whose vote does not count.
    sa.Column("excluded", MessagePackType),
    #: {"role": name} or {"names": [...]}, and {"count": number}; NULL: anybody.
    sa.Column("needed", MessagePackType),
    sa.Column("expires", sa.Double),
    #: Life cycle in catena.master.executions.approvals.
    sa.Column("state", sa.String(24), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
    sa.Index("ix_approval_subject_subject_id", "subject", "subject_id"),
)

#: One operator's vote on an approval.
APPROVAL_VOTES = sa.Table(
    "approval_vote",
    METADATA,
    sa.Column("approval", sa.ForeignKey(APPROVALS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("operator", sa.String(64), primary_key=True),
    #: "approve" or "refuse".
    sa.Column("word", sa.String(16), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("reason", Words, nullable=False, server_default=""),
)

RUNS = sa.Table(
    "run",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("engine", sa.String(24), nullable=False),
    #: The engine's own id of the work.
    sa.Column("ref", sa.String(64), nullable=False),
    sa.Column("label", sa.String(256), nullable=False, server_default=""),
    sa.Column("owner", sa.String(64), nullable=False),
    sa.Column("state", sa.String(24), nullable=False),
    sa.Column("status", sa.String(24), nullable=False),
    #: Why it is in this state, for people.
    sa.Column("reason", Words, nullable=False, server_default=""),
    #: Increases with every attempt at the same ref.
    sa.Column("epoch", sa.Integer, nullable=False, server_default="1"),
    #: Earliest start; NULL: not scheduled.
    sa.Column("due", sa.Double),
    #: Both clocks of the master's host when it was scheduled.
    sa.Column("anchor_wall", sa.Double, nullable=False, server_default="0"),
    sa.Column("anchor_mono", sa.Double, nullable=False, server_default="0"),
    sa.Column("anchor_boot", sa.String(64), nullable=False, server_default=""),
    sa.Column("parent_run", Serial),
    sa.Column("approval", sa.ForeignKey(APPROVALS.c.id, ondelete="SET NULL")),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("ended", sa.Double),
    #: Number of transitions.
    sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("engine", "ref", "epoch", name="uq_run_engine_ref_epoch"),
    sqlite_autoincrement=True,
)
sa.Index("ix_run_approval", RUNS.c.approval)
#: Condition for the few runs that have not ended.
_UNENDED = RUNS.c.ended.is_(None)
sa.Index(
    "ix_run_engine_state",
    RUNS.c.engine,
    RUNS.c.state,
    RUNS.c.due,
    sqlite_where=_UNENDED,
    postgresql_where=_UNENDED,
)

EXECUTIONS = sa.Table(
    "execution",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("engine", sa.String(24), nullable=False),
    #: How it recovers from a crash: "idempotent", "once", "reboot", or the engine's own kind.
    sa.Column("kind", sa.String(24), nullable=False, server_default=""),
    #: The engine's own id of the unit.
    sa.Column("ref", sa.String(64), nullable=False),
    #: The minion on which it runs; both columns NULL: on the master.
    sa.Column("minion", sa.String(253)),
    sa.Column("node", sa.String(64)),
    #: Counted from 0; executions on several minions share it.
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("state", sa.String(24), nullable=False),
    sa.Column("status", sa.String(24), nullable=False),
    #: "Prerequisite failed", "interrupted", "reboot" while it waits for the boot, ...
    sa.Column("reason", Words, nullable=False, server_default=""),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    #: NULL until it has ended in any way.
    sa.Column("ended", sa.Double),
    sa.Column("retcode", sa.Integer),
    sa.Column("comment", Words, nullable=False, server_default=""),
    sa.Column("changes", MessagePackType),
    sa.UniqueConstraint("run", "ref", name="uq_execution_run_ref"),
    sa.Index("ix_execution_run_minion", "run", "minion"),
    sa.Index("ix_execution_run_status", "run", "status"),
)
#: Condition for the few executions that have not ended.
_OPEN = EXECUTIONS.c.ended.is_(None)
sa.Index("ix_execution_open_state", EXECUTIONS.c.state, sqlite_where=_OPEN, postgresql_where=_OPEN)

#: Every transition of any life cycle, and notes without a transition.
HISTORY = sa.Table(
    "history",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    #: Name of the life cycle: "run", "execution", or an engine's own.
    sa.Column("subject", sa.String(24), nullable=False),
    sa.Column("subject_id", sa.BigInteger, nullable=False),
    #: NULL: it belongs to no run, such as the edit of a draft.
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), index=True),
    #: States and event; `from` and `to` are keywords in SQL.
    sa.Column("source", sa.String(24), nullable=False, server_default=""),
    sa.Column("event", sa.String(24), nullable=False),
    sa.Column("target", sa.String(24), nullable=False, server_default=""),
    #: "api", "system" or "agent".
    sa.Column("actor", sa.String(8), nullable=False),
    #: Name of a user, id of a minion, or "" for the master itself.
    sa.Column("who", sa.String(253), nullable=False, server_default=""),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("reason", Words, nullable=False, server_default=""),
)
_NO_RUN = HISTORY.c.run.is_(None)
sa.Index(
    "ix_history_subject_subject_id",
    HISTORY.c.subject,
    HISTORY.c.subject_id,
    sqlite_where=_NO_RUN,
    postgresql_where=_NO_RUN,
)

#: Runs of which nothing further is sent, everywhere or to one minion.
PAUSES = sa.Table(
    "pause",
    METADATA,
    sa.Column("run", sa.ForeignKey(RUNS.c.id, ondelete="CASCADE"), primary_key=True),
    #: "": everywhere.
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("who", sa.String(64), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)

#: Leases: who works on something exclusively, and until when.
LEASES = sa.Table(
    "lease",
    METADATA,
    sa.Column("subject", sa.String(24), primary_key=True),
    sa.Column("id", sa.String(253), primary_key=True),
    #: Name and incarnation of a process; "": none.
    sa.Column("holder", sa.String(128), nullable=False),
    #: Increases with every new holder.
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
)

#: First reading of both clocks in each boot of a master's host.
CLOCKS = sa.Table(
    "clock_anchor",
    METADATA,
    sa.Column("boot_id", sa.String(64), primary_key=True),
    sa.Column("wall", sa.Double, nullable=False),
    sa.Column("mono", sa.Double, nullable=False),
)
