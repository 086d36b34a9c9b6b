"""Claims to hosts over SSH move to the table of leases.

No claim is carried over: visits end with their master, and none runs during an upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Drop the columns of claims."""
    op.drop_column("ssh_host", "held_until")
    op.drop_column("ssh_host", "holder")


def downgrade() -> None:
    """Add the columns again, without a claim."""
    op.add_column(
        "ssh_host", sa.Column("holder", sa.String(64), nullable=False, server_default="")
    )
    op.add_column(
        "ssh_host", sa.Column("held_until", sa.Double(), nullable=False, server_default="0")
    )
