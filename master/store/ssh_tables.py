"""The hosts that the master itself reaches over SSH. Times are seconds since the epoch, UTC."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, Words

#: Hosts of the roster that a job or a chain was ever for. Of the roster only their ids are here:
#: how they are reached, and with which secrets, is read anew for every visit.
SSH_HOSTS = sa.Table(
    "ssh_host",
    METADATA,
    sa.Column("id", sa.String(253), primary_key=True),
    #: Life cycle in catena.master.push.lifecycle.
    sa.Column("state", sa.String(16), nullable=False),
    #: What it waits for, or what the visit does: for people.
    sa.Column("detail", Words, nullable=False, server_default=""),
    #: When it came to stand there.
    sa.Column("since", sa.Double, nullable=False),
    #: It is not visited before.
    sa.Column("due", sa.Double, nullable=False, server_default="0"),
    #: Visits in a row that did not get to it.
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    #: What the last visit found; "" before the first.
    sa.Column("machine_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    #: ISO 8601.
    sa.Column("boot_time", sa.String(40), nullable=False, server_default=""),
    #: The boot of which a start event was made last, and when.
    sa.Column("played", sa.String(64), nullable=False, server_default=""),
    sa.Column("played_at", sa.Double, nullable=False, server_default="0"),
)
