"""Returns that are too large for one frame, in pieces for the bulk socket."""

from __future__ import annotations

from typing import List, Sequence

from catena.core.digest import sha256
from catena.core.errors import RecordError
from catena.core.finite import finite_record
from catena.core.job import JobReturn
from catena.core.records import decode
from catena.transport.messages import JobReturned, ReturnPart
from catena.transport.wire import (
    CHUNK_BYTES,
    TEXT_LIMIT,
    FieldError,
    LargeFrameError,
    Limit,
    PartsError,
    pack_body,
    unpack_body,
)


def split_return(ret: JobReturn, piece_bytes: int = CHUNK_BYTES) -> List[ReturnPart]:
    """Split a large return into pieces for the bulk socket, in order."""
    whole = pack_body(JobReturned(ret))
    digest = sha256(whole).hexdigest()
    pieces = [whole[at : at + piece_bytes] for at in range(0, len(whole), piece_bytes)]
    return [
        ReturnPart(ret.jid, digest, index, len(pieces), piece)
        for index, piece in enumerate(pieces)
    ]


def join_return(parts: Sequence[ReturnPart], limit_bytes: int) -> JobReturned:
    """Return the message that `split_return` split into *parts* (all of them, in any order).

    Raises:
        PartsError: a piece is missing, duplicated or of another return, or the hash differs.
        WireError: it is longer than *limit_bytes*, or it is not a JobReturned.
    """
    ordered = sorted(parts, key=lambda part: part.index)
    if not ordered or [part.index for part in ordered] != list(range(ordered[0].count)):
        raise PartsError("pieces are missing or duplicated")
    first = ordered[0]
    if any((p.jid, p.sha256, p.count) != (first.jid, first.sha256, first.count) for p in ordered):
        raise PartsError("pieces of different returns")
    if sum(len(part.data) for part in ordered) > limit_bytes:
        raise LargeFrameError(f"a return of more than {limit_bytes} bytes")
    whole = b"".join(part.data for part in ordered)
    if sha256(whole).hexdigest() != first.sha256:
        raise PartsError("the pieces do not match their SHA-256")
    limit = Limit(limit_bytes, nodes=max(limit_bytes // 16, 1_000_000))
    data = unpack_body(whole, limit)
    try:
        message = finite_record(decode(JobReturned, data, "JobReturned"))
    except RecordError as error:
        raise FieldError(str(error)[:TEXT_LIMIT]) from None
    if message.ret.jid != first.jid:
        raise PartsError("the pieces contain the return of another job")
    return message
