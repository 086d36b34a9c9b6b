"""Action chains."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = (
    "clock_anchor",
    "chain_history",
    "chain_chunk",
    "chain_run",
    "execution",
    "chain_entry",
    "chain_action",
    "chain",
)


def upgrade() -> None:
    """Create the tables."""
    _chains()
    _actions()
    _executions()
    _runs()
    _history()


def downgrade() -> None:
    """Drop the tables."""
    for table in TABLES:
        op.drop_table(table)


def _number_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _serial(name: str) -> sa.Column[int]:
    return sa.Column(name, _number_type(), primary_key=True, autoincrement=True)


def _of_chain(*, primary_key: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey("chain.id", ondelete="CASCADE")
    return sa.Column("chain_id", _number_type(), key, primary_key=primary_key, nullable=False)


def _of_action(*, primary_key: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey("chain_action.id", ondelete="CASCADE")
    return sa.Column("action_id", _number_type(), key, primary_key=primary_key, nullable=False)


def _text(name: str, length: int = 0) -> sa.Column[str]:
    kind = sa.String(length) if length else sa.Text()
    return sa.Column(name, kind, nullable=False, server_default="")


def _name(name: str, length: int, *, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, primary_key=primary_key)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="0")


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def _zero(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, server_default="0")


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), primary_key=True, nullable=False)


def _index(table: str, *columns: str) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns))


def _chains() -> None:
    op.create_table(
        "chain",
        _serial("id"),
        _name("label", 256),
        _name("user", 64),
        _name("state", 24),
        _text("reason"),
        _count("epoch"),
        _time("created"),
        _time("modified"),
        sa.Column("due", sa.Double()),
        _zero("anchor_wall"),
        _zero("anchor_mono"),
        _text("anchor_boot", 64),
        _text("approved_by", 64),
        sa.Column("dispatched", sa.Boolean(name="dispatched"), nullable=False),
        sa.Column("ended", sa.Double()),
        sa.Column("archived", sa.Boolean(name="archived"), nullable=False),
        sqlite_autoincrement=True,
    )
    for column in ("label", "state", "due", "archived"):
        _index("chain", column)


def _actions() -> None:
    op.create_table(
        "chain_action",
        _serial("id"),
        _of_chain(),
        _name("kind", 16),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        _name("repeat", 16),
        _time("created"),
        sqlite_autoincrement=True,
    )
    _index("chain_action", "chain_id")
    op.create_table(
        "chain_entry",
        _of_action(primary_key=True),
        _of_chain(),
        _name("minion", 253),
        sa.Column("sort_order", sa.Integer(), nullable=False),
        sa.UniqueConstraint(
            "chain_id", "minion", "sort_order", name="uq_chain_entry_chain_id_minion_sort_order"
        ),
    )


def _executions() -> None:
    op.create_table(
        "execution",
        _serial("id"),
        _of_chain(),
        _of_action(),
        sa.Column("epoch", sa.Integer(), nullable=False),
        _name("minion", 253),
        sa.Column("sort_order", sa.Integer(), nullable=False),
        _name("state", 24),
        _text("reason"),
        _count("chunk"),
        sa.Column("waits_for", sa.String(16), nullable=False, server_default="none"),
        _zero("delay_seconds"),
        sa.Column("picked_up", sa.Double()),
        _zero("picked_mono"),
        _text("picked_host_boot", 64),
        _text("boot_id", 64),
        _time("created"),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("retcode", sa.Integer()),
        _text("comment"),
        sa.Column("changes", sa.LargeBinary()),
        sa.UniqueConstraint("action_id", "epoch", name="uq_execution_action_id_epoch"),
    )
    _index("execution", "chain_id", "minion")
    _index("execution", "chain_id", "state")
    _index("execution", "state")


def _runs() -> None:
    op.create_table(
        "chain_run",
        _of_chain(primary_key=True),
        _key("epoch"),
        _name("minion", 253, primary_key=True),
        _name("machine_id", 64),
        _text("jid", 20),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        _text("boot_id", 64),
        sa.Column("open", sa.Boolean(name="open"), nullable=False),
        sa.Column("fence", sa.Boolean(name="fence"), nullable=False, server_default=sa.false()),
    )
    _index("chain_run", "jid")
    _index("chain_run", "minion", "open")
    op.create_table(
        "chain_chunk",
        _of_chain(primary_key=True),
        _key("epoch"),
        _name("minion", 253, primary_key=True),
        _key("number"),
        _name("file", 255),
        _name("sha256", 64),
        _name("boundary", 16),
        _name("state", 16),
    )
    _index("chain_chunk", "state")


def _history() -> None:
    op.create_table(
        "chain_history",
        _serial("id"),
        _of_chain(),
        _name("subject", 16),
        sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"),
        _text("minion", 253),
        sa.Column("epoch", sa.Integer(), nullable=False),
        _text("source", 24),
        _name("event", 24),
        _text("target", 24),
        _text("by", 253),
        _text("reason"),
        _time("at"),
    )
    _index("chain_history", "chain_id")
    op.create_table(
        "clock_anchor",
        _name("boot_id", 64, primary_key=True),
        _time("wall"),
        _time("mono"),
    )
