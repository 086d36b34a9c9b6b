"""What running jobs print, in parts, until the job is dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "job_output",
        sa.Column(
            "jid", sa.String(20), sa.ForeignKey("job.jid", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("minion", sa.String(253), primary_key=True),
        sa.Column("seq", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("stream", sa.String(8), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("job_output")
