"""Hosts that the master itself reaches over SSH."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table; say of runs how they are carried out."""
    over_ssh: sa.Column[bool] = sa.Column(
        "over_ssh", sa.Boolean(name="over_ssh"), nullable=False, server_default=sa.false()
    )
    op.add_column("chain_run", over_ssh)
    op.create_table(
        "ssh_host",
        sa.Column("id", sa.String(253), primary_key=True, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False, server_default="0"),
        sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("holder", sa.String(64), nullable=False, server_default=""),
        sa.Column("held_until", sa.Double(), nullable=False, server_default="0"),
        sa.Column("machine_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("boot_time", sa.String(40), nullable=False, server_default=""),
        sa.Column("played", sa.String(64), nullable=False, server_default=""),
        sa.Column("played_at", sa.Double(), nullable=False, server_default="0"),
    )


def downgrade() -> None:
    """Drop the table and the column."""
    with op.batch_alter_table("chain_run") as table:
        table.drop_column("over_ssh")
    op.drop_table("ssh_host")
