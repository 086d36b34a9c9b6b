"""Events of returns, whose data is stored only once, with the return.

The row of such an event has no data of its own. Its tag names job and minion, whose return
contains the data. The return's row refers to the event, for when one of the two is deleted first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgpack
import sqlalchemy as sa

from catena.core import events
from catena.core.job import JobReturn
from catena.core.records import decode
from catena.master.store.lists import padded, slices
from catena.master.store.metadata import WITH_ANOTHER
from catena.master.store.tables import EVENTS, RETURNS

#: Maximum bytes of a value that is repeated in the return's event; the job has larger ones.
EVENT_VALUE_LIMIT = 256 * 1024
#: Number of events that get their data back at a time; each may take megabytes of memory.
GIVEN_AT_ONCE = 20
_OF_JOB = sa.select(RETURNS).where(
    RETURNS.c.jid == sa.bindparam("b_jid"),
    RETURNS.c.minion.in_(sa.bindparam("b_minions", expanding=True)),
)
_GIVE = (
    sa.update(EVENTS)
    .where(EVENTS.c.seq == sa.bindparam("b_seq"))
    .values(data=sa.bindparam("b_data"))
)


def told(minion: str, ret: JobReturn, at: float) -> dict[str, Any]:
    """Return the data of salt/job/<jid>/ret/<id> under Salt's keys.

    Args:
        minion: who returned.
        ret: the return.
        at: when it was stored, seconds since the epoch.
    """
    data = {
        "cmd": "_return",
        "id": minion,
        "success": ret.success,
        "return": ret.value,
        "retcode": ret.retcode,
        "jid": ret.jid,
        "fun": ret.fun,
        "fun_args": list(ret.fun_args),
        "ts": at,
    }
    if ret.out:
        data["out"] = ret.out
    return data


def cut(data: Mapping[str, Any], size: int) -> Mapping[str, Any] | None:
    """Return the data of an event without its too large value; None if the value is not too large.

    Args:
        data: as from `told`.
        size: bytes of the whole return, packed.
    """
    # The whole return is at least as large as the value, and its size is known.
    if size <= EVENT_VALUE_LIMIT:
        return None
    value = len(msgpack.packb(data["return"]))
    return {**data, "return": None, "return_bytes": value} if value > EVENT_VALUE_LIMIT else None


def put_together(conn: sa.Connection, rows: Iterable[sa.Row[Any]]) -> Mapping[int, dict[str, Any]]:
    """Return position -> data for events that have no data of their own.

    Args:
        conn: a snapshot.
        rows: of EVENTS.
    """
    wanted: defaultdict[str, dict[str, int]] = defaultdict(dict)
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        jid, minion = events.returned_by(row.tag)
        wanted[jid][minion] = row.seq
        # `give_back` runs before a return is deleted; rows deleted by hand have lost the data.
        found[row.seq] = {"cmd": "_return", "id": minion, "jid": jid, "return": None}
    for jid, seqs in wanted.items():
        for row in conn.execute(_OF_JOB, {"b_jid": jid, "b_minions": padded(seqs)}):
            found[seqs[row.minion]] = told(row.minion, decode(JobReturn, row.ret), row.stored)
    return found


def give_back(conn: sa.Connection, seqs: Sequence[int]) -> None:
    """Copy the data of returns that are about to be deleted into their events.

    Args:
        conn: the running transaction.
        seqs: at most some thousands.
    """
    bare: sa.Select[Any] = sa.select(EVENTS.c.seq, EVENTS.c.tag)
    bare = bare.where(EVENTS.c.seq.in_(padded(seqs)), EVENTS.c.data == WITH_ANOTHER)
    for some in slices(conn.execute(bare).all(), GIVEN_AT_ONCE):
        found = put_together(conn, some)
        conn.execute(_GIVE, [{"b_seq": seq, "b_data": data} for seq, data in found.items()])
