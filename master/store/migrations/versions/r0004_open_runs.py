"""The runs that are open, or to be forgotten, found without a look at all that ever were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

#: Index, its column, and which rows it has.
_INDEXES = (
    ("ix_chain_run_open_jid", "jid", "open"),
    ("ix_chain_run_fence_chain_id", "chain_id", "fence"),
)


def upgrade() -> None:
    """Create the indexes."""
    for name, column, which in _INDEXES:
        rule = sa.column(which, sa.Boolean()) == sa.true()
        op.create_index(name, "chain_run", [column], sqlite_where=rule, postgresql_where=rule)


def downgrade() -> None:
    """Drop the indexes."""
    for name, _, _ in _INDEXES:
        op.drop_index(name, "chain_run")
