"""Hosts that the master itself reaches by SSH. Times are seconds since the epoch, UTC."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.store.metadata import METADATA, Words

#: Hosts of the roster that were ever the target of a job or a chain. Only their ids are stored:
#: addresses and secrets are read from the roster for every visit.
SSH_HOSTS = sa.Table(
    "ssh_host",
    METADATA,
    sa.Column("id", sa.String(253), primary_key=True),
    #: Life cycle in catena.master.push.lifecycle.
    sa.Column("state", sa.String(16), nullable=False),
    #: Description of what it waits for, or what the visit does.
    sa.Column("detail", Words, nullable=False, server_default=""),
    #: Time of the last change of state.
    sa.Column("since", sa.Double, nullable=False),
    #: Earliest time of the next visit.
    sa.Column("due", sa.Double, nullable=False, server_default="0"),
    #: Number of consecutive visits that did not reach it.
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    #: Found by the last visit; "" before the first.
    sa.Column("machine_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("boot_id", sa.String(64), nullable=False, server_default=""),
    #: ISO 8601.
    sa.Column("boot_time", sa.String(40), nullable=False, server_default=""),
    #: The last boot for which a start event was fired, and below the time of that.
    sa.Column("played", sa.String(64), nullable=False, server_default=""),
    sa.Column("played_at", sa.Double, nullable=False, server_default="0"),
)
