"""Keys, minions, jobs, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TABLES = (
    "job_return",
    "job_progress",
    "delivery",
    "job",
    "minion_session",
    "minion",
    "minion_key",
    "enrol_token",
    "event",
    "event_cursor",
    "fact",
)


def upgrade() -> None:
    """Create the tables."""
    _keys()
    _minions()
    _jobs()
    _deliveries()
    _returns()
    _events()


def downgrade() -> None:
    """Drop the tables."""
    for table in TABLES:
        op.drop_table(table)


def _serial(name: str) -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, primary_key=True, autoincrement=True)


def _text(name: str, length: int = 0) -> sa.Column[str]:
    kind = sa.String(length) if length else sa.Text()
    return sa.Column(name, kind, nullable=False, server_default="")


def _name(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _packed(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=nullable)


def _job_key() -> sa.Column[str]:
    return sa.Column(
        "jid", sa.String(20), sa.ForeignKey("job.jid", ondelete="CASCADE"), primary_key=True
    )


def _minion_key() -> sa.Column[str]:
    return sa.Column("minion", sa.String(253), primary_key=True)


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _keys() -> None:
    op.create_table(
        "minion_key",
        _serial("id"),
        _name("minion", 253),
        sa.Column("public_key", sa.String(40), nullable=False, unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False, unique=True),
        _name("state", 16),
        _text("machine_id", 64),
        _text("address", 64),
        _text("version", 64),
        _text("reason"),
        _time("since"),
        _time("seen"),
        _text("decided_by", 64),
    )
    _index("minion_key", "minion")
    _index("minion_key", "state")
    op.create_table(
        "enrol_token",
        _serial("id"),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        _text("minion", 253),
        _name("made_by", 64),
        _time("expires"),
        _text("used_by", 253),
    )


def _minions() -> None:
    op.create_table(
        "minion",
        sa.Column("id", sa.String(253), primary_key=True),
        _text("machine_id", 64),
        _text("version", 64),
        _text("boot_id", 64),
        _text("session", 64),
        _text("address", 64),
        _packed("grains", nullable=True),
        _packed("pending_resume", nullable=True),
        sa.Column("up", sa.Boolean(), nullable=False, server_default=sa.false()),
        _time("since"),
        _time("last_seen"),
        _text("conflict"),
        sa.Column("conflict_at", sa.Double, nullable=False, server_default="0"),
    )
    _index("minion", "machine_id")
    op.create_table(
        "minion_session",
        _minion_key(),
        sa.Column("session", sa.String(64), primary_key=True),
        _time("at"),
    )
    _index("minion_session", "at")


def _jobs() -> None:
    op.create_table(
        "job",
        sa.Column("jid", sa.String(20), primary_key=True),
        _name("fun", 255),
        _packed("args"),
        _packed("kwargs"),
        _name("user", 64),
        sa.Column("tgt", sa.Text, nullable=False),
        _name("tgt_type", 32),
        _packed("metadata"),
        _time("issued"),
        _time("not_after"),
        sa.Column("deadline_seconds", sa.Integer, nullable=False),
        sa.Column("batch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("idempotency", sa.String(512), unique=True),
        sa.Column("open", sa.Integer, nullable=False, server_default="0"),
        sa.Column("ended", sa.Double),
    )
    _index("job", "fun")
    _index("job", "ended")


def _deliveries() -> None:
    op.create_table(
        "delivery",
        _job_key(),
        _minion_key(),
        _name("state", 16),
        _text("detail"),
        _time("changed"),
        _text("cancel", 255),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        _packed("chain", nullable=True),
    )
    _index("delivery", "minion", "state")


def _returns() -> None:
    op.create_table(
        "job_return",
        _job_key(),
        _minion_key(),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("retcode", sa.Integer, nullable=False),
        _packed("ret"),
        _time("stored"),
        sa.Column("late", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "job_progress",
        _job_key(),
        _minion_key(),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        _name("kind", 32),
        _packed("data"),
        _time("when"),
    )


def _events() -> None:
    op.create_table(
        "event",
        _serial("seq"),
        _name("tag", 1024),
        _packed("data"),
        _time("at"),
        _text("source", 253),
        sa.Column("event_id", sa.String(64)),
        sa.UniqueConstraint("source", "event_id", name="uq_event_source_event_id"),
        sqlite_autoincrement=True,
    )
    _index("event", "at")
    op.create_table(
        "event_cursor",
        sa.Column("consumer", sa.String(64), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "fact",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
