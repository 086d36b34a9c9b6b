"""An index of the fenced runs of each minion."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_INDEX = "ix_chain_run_fence_minion"


def upgrade() -> None:
    """Create the index."""
    rule = sa.column("fence", sa.Boolean()) == sa.true()
    op.create_index(_INDEX, "chain_run", ["minion"], sqlite_where=rule, postgresql_where=rule)


def downgrade() -> None:
    """Drop the index."""
    op.drop_index(_INDEX, "chain_run")
