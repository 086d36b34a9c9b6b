"""A stored clock reading names the host that it was read on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; the host of older readings is unknown."""
    column = sa.Column("picked_host", sa.String(64), nullable=False, server_default="")
    op.add_column("execution", column)


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("execution", "picked_host")
