"""A return knows the event that told of it, which has no copy of what the return has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; the events of older returns have their own data."""
    op.add_column("job_return", sa.Column("event", sa.BigInteger, nullable=True))


def downgrade() -> None:
    """Drop the column. What events have with their returns is lost."""
    op.drop_column("job_return", "event")
