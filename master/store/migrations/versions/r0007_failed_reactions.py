"""Failed reactions, which are kept until they are done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "failed_reaction",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("event", sa.LargeBinary(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("reaction", sa.LargeBinary()),
        sa.Column("ahead", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.UniqueConstraint("digest", name="uq_failed_reaction_digest"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """Drop the table; what failed is tried no more."""
    op.drop_table("failed_reaction")
