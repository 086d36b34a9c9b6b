"""Tables of keys, minions, jobs and events. Times are seconds since the epoch, UTC."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, Packed, Serial, Words

#: Every CURVE key that ever asked to come in. Several keys may claim one minion id; at most one of
#: them is accepted.
KEYS = sa.Table(
    "minion_key",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    sa.Column("minion", sa.String(253), nullable=False, index=True),
    sa.Column("public_key", sa.String(40), nullable=False, unique=True),
    sa.Column("fingerprint", sa.String(64), nullable=False, unique=True),
    #: pending, accepted, rejected, denied, announced (next key of a rotation).
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("machine_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("address", sa.String(64), nullable=False, server_default=""),
    sa.Column("version", sa.String(64), nullable=False, server_default=""),
    #: Why it is denied or in conflict, for people.
    sa.Column("reason", Words, nullable=False, server_default=""),
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("seen", sa.Double, nullable=False),
    sa.Column("decided_by", sa.String(64), nullable=False, server_default=""),
)

TOKENS = sa.Table(
    "enrol_token",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    #: SHA-256 of the token, hex: the key of the proof's HMAC.
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    #: Only for this id; "" for any.
    sa.Column("minion", sa.String(253), nullable=False, server_default=""),
    sa.Column("made_by", sa.String(64), nullable=False),
    sa.Column("expires", sa.Double, nullable=False),
    sa.Column("used_by", sa.String(253), nullable=False, server_default=""),
)

MINIONS = sa.Table(
    "minion",
    METADATA,
    sa.Column("id", sa.String(253), primary_key=True),
    sa.Column("machine_id", sa.String(64), nullable=False, server_default="", index=True),
    sa.Column("version", sa.String(64), nullable=False, server_default=""),
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    #: The agent process that said Hello last.
    sa.Column("session", sa.String(64), nullable=False, server_default=""),
    sa.Column("address", sa.String(64), nullable=False, server_default=""),
    sa.Column("grains", Packed),
    #: What its resume file says; empty without one.
    sa.Column("pending_resume", Packed),
    sa.Column("up", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: When `up` changed last.
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("last_seen", sa.Double, nullable=False),
    #: Why a second connection of the same identity was refused, and when; "" without.
    sa.Column("conflict", Words, nullable=False, server_default=""),
    sa.Column("conflict_at", sa.Double, nullable=False, server_default="0"),
    #: What its agent understands (`transport.messages.session.AGENT_WIRE`).
    sa.Column("wire", sa.Integer, nullable=False, server_default="1"),
)

#: Agent processes whose start event was made: one event per session, whatever is resent.
SESSIONS = sa.Table(
    "minion_session",
    METADATA,
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("session", sa.String(64), primary_key=True),
    sa.Column("at", sa.Double, nullable=False, index=True),
)

JOBS = sa.Table(
    "job",
    METADATA,
    sa.Column("jid", sa.String(20), primary_key=True),
    sa.Column("fun", sa.String(255), nullable=False, index=True),
    sa.Column("args", Packed, nullable=False),
    sa.Column("kwargs", Packed, nullable=False),
    sa.Column("user", sa.String(64), nullable=False),
    sa.Column("tgt", sa.Text, nullable=False),
    sa.Column("tgt_type", sa.String(32), nullable=False),
    sa.Column("metadata", Packed, nullable=False),
    sa.Column("issued", sa.Double, nullable=False),
    #: By catena.master.jobs.order_clock, which setting the clock does not change.
    sa.Column("not_after", sa.Double, nullable=False),
    sa.Column("deadline_seconds", sa.Integer, nullable=False),
    #: Deliveries under way at a time; 0: all.
    sa.Column("batch", sa.Integer, nullable=False, server_default="0"),
    #: Seconds that a delivery counts as under way after its end.
    sa.Column("batch_wait", sa.Double, nullable=False, server_default="0"),
    #: Whether the first failure cancels the held deliveries.
    sa.Column("batch_failhard", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: "<user>\n<key>" of the client's idempotency key.
    sa.Column("idempotency", sa.String(512), unique=True),
    #: Deliveries that have not ended.
    sa.Column("open", sa.Integer, nullable=False, server_default="0"),
    #: When the last delivery ended; NULL while any is open.
    sa.Column("ended", sa.Double, index=True),
)

#: One job on one minion; states and rows in catena.master.jobs.delivery.
DELIVERIES = sa.Table(
    "delivery",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    #: Reason, queue position, last step: for people.
    sa.Column("detail", Words, nullable=False, server_default=""),
    sa.Column("changed", sa.Double, nullable=False),
    #: Who asked for the cancellation; "" without one.
    sa.Column("cancel", sa.String(255), nullable=False, server_default=""),
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
    sa.Column("chain", Packed),
    sa.Index("ix_delivery_minion_state", "minion", "state"),
)

RETURNS = sa.Table(
    "job_return",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("success", sa.Boolean(), nullable=False),
    sa.Column("retcode", sa.Integer, nullable=False),
    #: The whole JobReturn.
    sa.Column("ret", Packed, nullable=False),
    sa.Column("stored", sa.Double, nullable=False),
    #: True when its delivery had ended otherwise before.
    sa.Column("late", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: The event that told of it, which has its data here (`events.return_events`); NULL: it has
    #: its own.
    sa.Column("event", sa.BigInteger),
)

PROGRESS = sa.Table(
    "job_progress",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("data", Packed, nullable=False),
    sa.Column("when", sa.Double, nullable=False),
)

OUTPUT = sa.Table(
    "job_output",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    #: Counted from 1 per job and minion.
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    #: As in `JobOutput`; the part ends at byte `upto`.
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("upto", sa.BigInteger, nullable=False),
    #: Bytes before this part that never came.
    sa.Column("missed", sa.BigInteger, nullable=False),
    #: "stdout", "stderr", or "" for the mark at the limit.
    sa.Column("stream", sa.String(8), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

EVENTS = sa.Table(
    "event",
    METADATA,
    sa.Column("seq", Serial, primary_key=True, autoincrement=True),
    sa.Column("tag", sa.String(1024), nullable=False),
    #: WITH_ANOTHER: the return that the tag names has it.
    sa.Column("data", Packed, nullable=False),
    sa.Column("at", sa.Double, nullable=False, index=True),
    #: Minion id; "" for the master's own.
    sa.Column("source", sa.String(253), nullable=False, server_default=""),
    #: The minion's own number of it, for deduplication; NULL for the master's.
    sa.Column("event_id", sa.String(64)),
    sa.UniqueConstraint("source", "event_id", name="uq_event_source_event_id"),
    sqlite_autoincrement=True,
)

#: Requests of clients that came with a key and were carried out, with their answers: a repetition
#: changes nothing (`catena.master.requests.once`).
REQUESTS = sa.Table(
    "client_request",
    METADATA,
    sa.Column("user", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("verb", sa.String(32), nullable=False),
    #: SHA-256 of the request's fields, hex.
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("answer", Packed),
    sa.Column("at", sa.Double, nullable=False, index=True),
)

#: How far each durable consumer of events has come.
CURSORS = sa.Table(
    "event_cursor",
    METADATA,
    sa.Column("consumer", sa.String(64), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
)

#: Reactions that failed and are tried again (`events.kept`).
REACTIONS = sa.Table(
    "failed_reaction",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    #: SHA-256 of its key, hex.
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    #: The whole event: it may be pruned before the reaction is done.
    sa.Column("event", Packed, nullable=False),
    sa.Column("file", sa.Text, nullable=False),
    #: NULL: the file could not be rendered.
    sa.Column("reaction", Packed),
    #: Of a shipped rule.
    sa.Column("ahead", sa.Boolean(), nullable=False),
    sa.Column("error", Words, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("since", sa.Double, nullable=False),
    #: Wall clock of the next try.
    sa.Column("due", sa.Double, nullable=False),
    sqlite_autoincrement=True,
)

#: Single values of the master: highest jid, ...
FACTS = sa.Table(
    "fact",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
