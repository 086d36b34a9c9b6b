"""Requests of clients that have a key are kept with their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "client_request",
        sa.Column("user", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("answer", sa.LargeBinary),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("ix_client_request_at", "client_request", ["at"])


def downgrade() -> None:
    """Drop the table; requests that are repeated later are carried out again."""
    op.drop_table("client_request")
