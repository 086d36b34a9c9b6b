"""A batched job knows how long a place stays taken, and whether a failure ends it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns; batches of before go on without a pause and past failures."""
    op.add_column("job", sa.Column("batch_wait", sa.Double, nullable=False, server_default="0"))
    op.add_column(
        "job",
        sa.Column("batch_failhard", sa.Boolean(), nullable=False, server_default=sa.false()),
    )


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("job", "batch_failhard")
    op.drop_column("job", "batch_wait")
