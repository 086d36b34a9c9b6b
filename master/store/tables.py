"""Tables of keys, minions, jobs and events. Times are seconds since the epoch, UTC."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, MessagePackType, Serial, Words

#: Every CURVE key that ever asked for acceptance. Several keys may claim one minion id, but at
#: most one of them is accepted.
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
    #: SHA-256 of the token, hex: the HMAC key of its proof.
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    #: The only minion id that may use it; "" for any.
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
    #: The agent process of the last Hello.
    sa.Column("session", sa.String(64), nullable=False, server_default=""),
    sa.Column("address", sa.String(64), nullable=False, server_default=""),
    sa.Column("grains", MessagePackType),
    #: Content of its resume file; empty without one.
    sa.Column("pending_resume", MessagePackType),
    sa.Column("up", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: Time of the last change of `up`.
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("last_seen", sa.Double, nullable=False),
    #: Why a second connection of the same identity was refused, and below when; "" if none was.
    sa.Column("conflict", Words, nullable=False, server_default=""),
    sa.Column("conflict_at", sa.Double, nullable=False, server_default="0"),
    #: The agent's AGENT_WIRE (`transport.messages.session`).
    sa.Column("wire", sa.Integer, nullable=False, server_default="1"),
)

#: Agent processes whose start event was fired: one event per session, whatever is resent.
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
    sa.Column("args", MessagePackType, nullable=False),
    sa.Column("kwargs", MessagePackType, nullable=False),
    sa.Column("user", sa.String(64), nullable=False),
    sa.Column("tgt", sa.Text, nullable=False),
    sa.Column("tgt_type", sa.String(32), nullable=False),
    sa.Column("metadata", MessagePackType, nullable=False),
    sa.Column("issued", sa.Double, nullable=False),
    #: Latest delivery by catena.master.jobs.steady_clock, which ignores steps of the clock.
    sa.Column("not_after", sa.Double, nullable=False),
    sa.Column("deadline_seconds", sa.Integer, nullable=False),
    #: Maximum number of concurrent deliveries; 0: unlimited.
    sa.Column("batch", sa.Integer, nullable=False, server_default="0"),
    #: Seconds for which a delivery counts as running after its end.
    sa.Column("batch_wait", sa.Double, nullable=False, server_default="0"),
    #: Whether the first failure cancels the held deliveries.
    sa.Column("batch_failhard", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: "<user>\n<key>" of the client's idempotency key.
    sa.Column("idempotency", sa.String(512), unique=True),
    #: Number of deliveries that have not ended.
    sa.Column("open", sa.Integer, nullable=False, server_default="0"),
    #: End of the last delivery; NULL while any is open.
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
    #: User who requested the cancellation; "" if there is none.
    sa.Column("cancel", sa.String(255), nullable=False, server_default=""),
    #: Epoch of the payload; 0 without one.
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
    #: Kind of `core.job.Payload`, and below its number and body; NULL without a payload.
    sa.Column("payload_kind", sa.String(24)),
    sa.Column("payload_number", sa.BigInteger),
    sa.Column("payload", MessagePackType),
    sa.Index("ix_delivery_minion_state", "minion", "state"),
)

RETURNS = sa.Table(
    "job_return",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("success", sa.Boolean(), nullable=False),
    sa.Column("retcode", sa.Integer, nullable=False),
    #: The complete JobReturn.
    sa.Column("ret", MessagePackType, nullable=False),
    sa.Column("stored", sa.Double, nullable=False),
    #: Whether its delivery had already ended otherwise.
    sa.Column("late", sa.Boolean(), nullable=False, server_default=sa.false()),
    #: The event of the return, whose data is stored here (`events.return_events`); NULL: the event
    #: has its own data.
    sa.Column("event", sa.BigInteger),
)

PROGRESS = sa.Table(
    "job_progress",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("data", MessagePackType, nullable=False),
    sa.Column("when", sa.Double, nullable=False),
)

OUTPUT = sa.Table(
    "job_output",
    METADATA,
    sa.Column("jid", sa.ForeignKey(JOBS.c.jid, ondelete="CASCADE"), primary_key=True),
    sa.Column("minion", sa.String(253), primary_key=True),
    #: Counted from 1 per job and minion.
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    #: As in `JobOutput`; the chunk ends at byte `upto`.
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("upto", sa.BigInteger, nullable=False),
    #: Bytes before this chunk that never arrived.
    sa.Column("missed", sa.BigInteger, nullable=False),
    #: "stdout", "stderr", or "" for the mark at the limit.
    sa.Column("stream", sa.String(8), nullable=False),
    sa.Column("text", Words, nullable=False),
)

EVENTS = sa.Table(
    "event",
    METADATA,
    sa.Column("seq", Serial, primary_key=True, autoincrement=True),
    sa.Column("tag", sa.String(1024), nullable=False),
    #: WITH_ANOTHER: stored in the return that the tag names.
    sa.Column("data", MessagePackType, nullable=False),
    sa.Column("at", sa.Double, nullable=False, index=True),
    #: Minion id; "" for the master's own events.
    sa.Column("source", sa.String(253), nullable=False, server_default=""),
    #: The minion's own id of the event, to drop duplicates; NULL for the master's events.
    sa.Column("event_id", sa.String(64)),
    # Without the master's events: each of its transactions would write a page of the index.
    sa.Index(
        "uq_event_source_event_id",
        "source",
        "event_id",
        unique=True,
        sqlite_where=sa.text("event_id IS NOT NULL"),
        postgresql_where=sa.text("event_id IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

#: Client requests with a key that took effect, with their answers, so that a repetition changes
#: nothing (`catena.master.requests.once`).
REQUESTS = sa.Table(
    "client_request",
    METADATA,
    sa.Column("user", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("verb", sa.String(32), nullable=False),
    #: SHA-256 of the request's fields, hex.
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("answer", MessagePackType),
    sa.Column("at", sa.Double, nullable=False, index=True),
    # One B-tree less to write for each request.
    sqlite_with_rowid=False,
)

#: Position of each durable consumer of events.
CURSORS = sa.Table(
    "event_cursor",
    METADATA,
    sa.Column("consumer", sa.String(64), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
)

#: Failed reactions that will be retried (`events.failed_reactions`).
REACTIONS = sa.Table(
    "failed_reaction",
    METADATA,
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    #: SHA-256 of its key, hex.
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    #: The whole event, because it may be pruned before the reaction succeeds.
    sa.Column("event", MessagePackType, nullable=False),
    sa.Column("file", sa.Text, nullable=False),
    #: NULL: the file could not be rendered.
    sa.Column("reaction", MessagePackType),
    #: Whether it belongs to a built-in rule.
    sa.Column("ahead", sa.Boolean(), nullable=False),
    sa.Column("error", Words, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("since", sa.Double, nullable=False),
    #: Wall clock of the next attempt.
    sa.Column("due", sa.Double, nullable=False),
    sqlite_autoincrement=True,
)

#: Single values of the master, such as the highest jid.
FACTS = sa.Table(
    "fact",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
