"""Fences of runs keep their job and failures; minions say what their agent understands."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns. An agent has said nothing yet: it gets what the first agents take."""
    for column in _fences():
        op.add_column("chain_run", column)
    wire = sa.Column("wire", sa.Integer, nullable=False, server_default="1")
    op.add_column("minion", wire)


def downgrade() -> None:
    """Drop the columns. A fence that is under way is sent once more."""
    op.drop_column("minion", "wire")
    for column in reversed(_fences()):
        op.drop_column("chain_run", column.name)


def _fences() -> list[sa.Column[object]]:
    return [
        sa.Column("fence_jid", sa.String(20), nullable=False, server_default=""),
        sa.Column("fence_tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("fence_at", sa.Double, nullable=False, server_default="0"),
        sa.Column("fence_why", sa.Text, nullable=False, server_default=""),
        sa.Column("disowned", sa.Text, nullable=False, server_default=""),
    ]
