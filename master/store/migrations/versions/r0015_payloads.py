"""What a delivery carries of a chain becomes a payload with a kind.

The body stays the manifest, as it was packed. Deliveries that wait for their minion go out as
before.
"""

from __future__ import annotations

import msgpack
import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

#: One delivery of each job with payloads: all deliveries of a job are of the same chain.
_FIRST = """SELECT jid, payload FROM delivery AS one WHERE payload IS NOT NULL AND minion =
    (SELECT min(minion) FROM delivery WHERE jid = one.jid AND payload IS NOT NULL)"""
_NAME = """UPDATE delivery SET payload_kind = 'chain', payload_number = :number
    WHERE jid = :jid AND payload IS NOT NULL"""


def upgrade() -> None:
    """Rename the column and say of each row whose manifest it has."""
    op.add_column("delivery", sa.Column("payload_kind", sa.String(24)))
    op.add_column("delivery", sa.Column("payload_number", sa.BigInteger()))
    op.execute("ALTER TABLE delivery RENAME COLUMN chain TO payload")
    conn = op.get_bind()
    numbers = [
        {"jid": jid, "number": msgpack.unpackb(body, raw=False)["chain_id"]}
        for jid, body in conn.execute(sa.text(_FIRST))
    ]
    if numbers:
        conn.execute(sa.text(_NAME), numbers)


def downgrade() -> None:
    """Drop the names and keep the manifests; payloads of other kinds go."""
    op.execute("UPDATE delivery SET payload = NULL WHERE payload_kind <> 'chain'")
    op.execute("ALTER TABLE delivery RENAME COLUMN payload TO chain")
    op.drop_column("delivery", "payload_number")
    op.drop_column("delivery", "payload_kind")
