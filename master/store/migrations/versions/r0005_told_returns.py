"""A return knows the event that told of it, which has no copy of what the return has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_EVENTS = sa.table("event", sa.column("data", sa.LargeBinary))
#: What stands for the data that a return has, and an empty mapping, as MessagePack.
_WITH_ANOTHER, _EMPTY = b"", b"\x80"


def upgrade() -> None:
    """Add the column; the events of older returns have their own data."""
    op.add_column("job_return", sa.Column("event", sa.BigInteger, nullable=True))


def downgrade() -> None:
    """Drop the column. What events have with their returns is lost: they say nothing any more."""
    bare = _EVENTS.c.data == _WITH_ANOTHER
    op.execute(sa.update(_EVENTS).where(bare).values(data=_EMPTY))
    op.drop_column("job_return", "event")
