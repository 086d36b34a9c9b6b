"""Events of returns, whose data is stored only once, with the return.

The row of such an event has no data of its own. Its tag names job and minion, whose return
contains the data. The return's row refers to the event, for when one of the two is deleted first.
The queries are in `return_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from catena.core.job import JobReturn

#: Maximum bytes of a returned value that its event contains; larger ones are only in the return.
EVENT_VALUE_LIMIT = 256 * 1024


def event_data(minion: str, ret: JobReturn, at: float) -> dict[str, Any]:
    """Return the data of salt/job/<jid>/ret/<id> under Salt's keys.

    Args:
        minion: the minion that returned.
        ret: the return.
        at: time at which the return was stored, seconds since the epoch.
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


def without_large_value(data: Mapping[str, Any], size: int) -> Mapping[str, Any] | None:
    """Return the data of an event without its too large value; None if the value is not too large.

    Args:
        data: as from `event_data`.
        size: bytes of the whole packed return.
    """
    # The size of the whole return is known and at least that of the value.
    if size <= EVENT_VALUE_LIMIT:
        return None
    value = len(msgpack.packb(data["return"]))
    return {**data, "return": None, "return_bytes": value} if value > EVENT_VALUE_LIMIT else None
