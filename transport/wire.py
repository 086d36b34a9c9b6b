"""The wire codec: messages to frames and back, with a limit on all that a peer sends (sans-IO).

A frame is `[type u8][version u8][msg-id 16][reply-to 16][MessagePack body]`. A receiver checks, in
this order: size, type, whether the type may arrive on this socket at this side, version, depth and
number of values of the body, and the type of each field. Each violation has its own PeerError,
which carries the id of the frame if it could be read. It affects no other frame.

>>> from catena.transport.messages import Ping
>>> unpack(pack(Ping(7)), socket="control", receiver="master").message
Ping(seq=7)
"""

from __future__ import annotations

import os
from math import isfinite
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Type, Union

import msgpack

from catena.core.errors import LimitError, PeerError, RecordError, UsageError
from catena.core.finite import finite_record
from catena.core.frozen import dataclass, replace
from catena.core.records import decode, plain
from catena.transport.messages import ALLOWED, FILES_AT_ONCE, PIECE_BYTES, TYPES, Envelope, record
from catena.transport.messages import CHUNK_BYTES as CHUNK_BYTES

VERSION = 1
#: Versions that a receiver accepts. There is no fallback to lower ones.
VERSIONS = frozenset({1})
#: reply-to of a message that is no answer.
ZERO = bytes(16)
ID_BYTES = 16
HEADER_BYTES = 2 + 2 * ID_BYTES
#: Number of random ids made at once.
IDS_AT_A_TIME = 64

#: A packer is kept for reuse if its last message was at most this long.
KEPT_PACKER_BYTES = 16 * 1024

#: Data of a piece is not copied out of the received frame if it has more bytes than this.
UNCOPIED_BYTES = 64 * 1024

#: Maximum length of an error text that quotes a peer.
TEXT_LIMIT = 300

KIB = 1024
MIB = 1024 * KIB

Buffer = Union[bytes, bytearray, memoryview]
#: Names of messages.
Names = FrozenSet[str]


@dataclass(frozen=True)
class Limit:
    """Limits of one frame, which protect its receiver."""

    #: Bytes of the whole frame, header included.
    frame_bytes: int
    #: Nesting depth of values; far below Python's own recursion limit.
    depth: int = 100
    #: Number of values in the body, keys of mappings included.
    nodes: int = 300_000


#: (socket, receiver) -> limit. ZeroMQ's MAXMSGSIZE (`sockets.py`) is never below these.
LIMITS: Mapping[Tuple[str, str], Limit] = {
    ("enrol", "master"): Limit(4 * KIB, depth=4, nodes=32),
    ("enrol", "minion"): Limit(4 * KIB, depth=4, nodes=32),
    ("control", "master"): Limit(256 * KIB + HEADER_BYTES),
    ("control", "minion"): Limit(2 * MIB, nodes=500_000),
    ("bulk", "master"): Limit(CHUNK_BYTES + 8 * KIB, depth=4, nodes=2 * FILES_AT_ONCE + 64),
    ("bulk", "minion"): Limit(PIECE_BYTES + 64 * KIB, depth=4, nodes=4096),
    ("local", "master"): Limit(24 * MIB, nodes=2_000_000),
    # Values are nested deeper in ClientItems than in the messages they came from.
    ("local", "client"): Limit(24 * MIB, depth=102, nodes=2_000_000),
    ("local", "minion"): Limit(24 * MIB, nodes=2_000_000),
    ("local", "job"): Limit(24 * MIB, nodes=2_000_000),
}


class WireError(PeerError):
    """A frame violates the wire protocol."""

    def __init__(self, message: str = "", msg_id: bytes = ZERO) -> None:
        super().__init__(message)
        #: Id of the frame, to be repeated in the answer; ZERO if it could not be read.
        self.msg_id = msg_id


class ShortFrameError(WireError):
    """A frame is shorter than its header."""


class LargeFrameError(WireError):
    """A frame exceeds the limit of its socket."""


class UnknownTypeError(WireError):
    """No message has this type."""


class WrongPlaceError(WireError):
    """A message arrived on a socket or at a side where it is not allowed."""


class WireVersionError(WireError):
    """The peer uses a wire version that this side does not support."""


class BodyError(WireError):
    """A message's body is not MessagePack with plain values."""


class BodyDepthError(WireError):
    """A message's body is nested too deeply."""


class BodySizeError(WireError):
    """A message's body has too many values."""


class FieldError(WireError):
    """A message's fields do not match its type."""


class PartsError(WireError):
    """The pieces of a large return do not fit together."""


class MessageTooLargeError(LimitError):
    """A message to be sent exceeds the receiver's limit."""


class NotPackableError(UsageError):
    """A message to be sent contains a value that the wire cannot carry."""


_NUMBER_OF: Dict[str, int] = {name: number for number, name in TYPES.items()}
#: The message type that consists almost entirely of its last field.
_PIECE = _NUMBER_OF["ChunkReply"]
#: Bytes before the length of its data, and the maximum offset at which they are searched.
_BEFORE_DATA, _PIECE_HEAD_BYTES = b"\xa4data\xc6", 200
_ITEM = _NUMBER_OF["ClientItem"]
_ITEMS = _NUMBER_OF["ClientItems"]
_PLAIN = frozenset({type(None), bool, int, str, bytes})
_KEYS = frozenset({type(None), bool, int, float, str})
#: Where NaN and infinities are replaced by text: data of minions is later shown as JSON.
_FROM_MINIONS = frozenset({("control", "master"), ("bulk", "master")})


class _Random:
    """Random bytes for ids, fetched in batches to save system calls."""

    def __init__(self) -> None:
        self._left: List[bytes] = []
        # A forked child must not use the same random bytes as its parent.
        os.register_at_fork(after_in_child=self._left.clear)

    def take(self) -> bytes:
        while True:
            try:
                return self._left.pop()
            except IndexError:
                fresh = os.urandom(ID_BYTES * IDS_AT_A_TIME)
                self._left += [fresh[at : at + ID_BYTES] for at in range(0, len(fresh), ID_BYTES)]


_RANDOM = _Random()


class _Packers:
    """Packers for reuse, because making one with its buffer takes longer than most messages.

    A packer is removed from the pool while it packs, so other threads and nested calls use
    another.
    """

    def __init__(self) -> None:
        self._free: List[msgpack.Packer] = []

    def pack(self, value: Any) -> bytes:
        try:
            packer = self._free.pop()
        except IndexError:
            packer = msgpack.Packer(
                default=plain, use_bin_type=True, unicode_errors="backslashreplace"
            )
        packed: bytes = packer.pack(value)
        # Drop a packer with a grown buffer; one that failed never gets here.
        if len(packed) <= KEPT_PACKER_BYTES:
            self._free.append(packer)
        return packed


_PACKERS = _Packers()


def new_id() -> bytes:
    """Return 16 random bytes for a msg-id."""
    return _RANDOM.take()


@dataclass(frozen=True)
class Packed:
    """A message packed without its header, for sending it to many peers."""

    number: int
    body: Buffer
    #: The end of a large body, kept apart to save a copy.
    rest: bytes = b""


def packed(message: Any) -> Packed:
    """Return *message* packed, for repeated use with `pack`; raises like `pack`."""
    number = _NUMBER_OF.get(type(message).__name__)
    if number is None:
        raise NotPackableError(f"{type(message).__name__} is not a message")
    if number == _PIECE:
        return Packed(number, _before_data(message), message.data)
    return Packed(number, pack_body(message))


def _before_data(message: Any) -> bytes:
    """Return the bytes of a piece's body before its data, which is the last field."""
    without = pack_body(replace(message, data=b""))
    # Packed with empty data, the body ends in the two bytes of MessagePack's short form.
    return b"%b\xc6%b" % (without[:-2], len(message.data).to_bytes(4, "big"))


def packed_as(kind: Type[Any], body: Buffer) -> Packed:
    """Return the result of `packed` for a message of type *kind* whose body was stored."""
    return Packed(_NUMBER_OF[kind.__name__], body)


def packed_item(value: bytes) -> Packed:
    """Return a ClientItem with a value from `pack_body`."""
    return Packed(_ITEM, b"\x81\xa5value" + value)


def packed_items(values: Sequence[bytes]) -> Packed:
    """Return a ClientItems with values from `pack_body`."""
    # MessagePack: a mapping of one key to a list with a 32-bit length.
    field = b"\x81\xa6values\xdd" + len(values).to_bytes(4, "big")
    return Packed(_ITEMS, b"".join((field, *values)))


def pack(message: Any, *, msg_id: Optional[bytes] = None, reply_to: bytes = ZERO) -> bytes:
    """Return *message* as one frame.

    Args:
        message: a record of `transport.messages`, or the result of `packed`.
        msg_id: 16 bytes that the answer's reply-to will repeat; generated if None.
        reply_to: msg-id of the message that this answers; ZERO (or b"") for none.

    Raises:
        NotPackableError: not a message, or a value that MessagePack cannot carry (a date, a set,
            too deep nesting). An integer of more than 64 bits is sent as decimal text.
    """
    whole = message if type(message) is Packed else packed(message)
    return b"".join((_head(whole, msg_id, reply_to), whole.body, whole.rest))


def parts(
    message: Any, *, msg_id: Optional[bytes] = None, reply_to: bytes = ZERO
) -> Tuple[bytes, Buffer]:
    """Return header and body of the frame that `pack` makes, without joining them."""
    whole = message if type(message) is Packed else packed(message)
    body = b"".join((whole.body, whole.rest)) if whole.rest else whole.body
    return _head(whole, msg_id, reply_to), body


def _head(whole: Packed, msg_id: Optional[bytes], reply_to: bytes) -> bytes:
    head = bytes((whole.number, VERSION)) + (msg_id or new_id()) + (reply_to or ZERO)
    if len(head) != HEADER_BYTES:
        raise NotPackableError("msg_id and reply_to are 16 bytes each")
    return head


def pack_body(value: Any) -> bytes:
    """Return a record or plain value as MessagePack; raises like `pack`.

    Text that is not valid Unicode (file names, output of commands) is sent with backslash escapes:
    one invalid byte must not make a job's return undeliverable.
    """
    try:
        return _PACKERS.pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotPackableError(f"{type(value).__name__}: {error}") from None


def check_outgoing(frame: Union[Buffer, Packed], *, socket: str, receiver: str) -> None:
    """Raise MessageTooLargeError if *frame* exceeds the receiver's limit."""
    limit = LIMITS[socket, receiver].frame_bytes
    if isinstance(frame, Packed):
        number, size = frame.number, HEADER_BYTES + len(frame.body) + len(frame.rest)
    else:
        number, size = frame[0], len(frame)
    if size > limit:
        raise MessageTooLargeError(
            f"{TYPES[number]}: {size} bytes, the {socket} socket takes {limit}"
        )


def unpack(
    frame: Buffer, *, socket: str, receiver: str, keep: bool = False, unread: Names = frozenset()
) -> Envelope:
    """Return the message of *frame* with its header.

    Args:
        frame: as received.
        socket: "control", "bulk", "enrol" or "local".
        receiver: which side this is: "master", "minion", "client" or "job".
        keep: also keep the encoded body; it is b"" if the message differs from it.
        unread: names of messages that are only forwarded. They are returned as Packed, and their
            bodies are checked by the final receiver.

    Raises:
        WireError: one of its subclasses, for the first rule that the frame violates.
    """
    limit = LIMITS[socket, receiver]
    view = memoryview(frame)
    if len(view) < HEADER_BYTES:
        raise ShortFrameError(f"a frame of {len(view)} bytes has no header")
    msg_id = bytes(view[2 : 2 + ID_BYTES])
    if len(view) > limit.frame_bytes:
        raise LargeFrameError(
            f"{len(view)} bytes, the {socket} socket takes {limit.frame_bytes}", msg_id
        )
    name = TYPES.get(view[0])
    if name is None:
        raise UnknownTypeError(f"unknown message type {view[0]}", msg_id)
    if name not in ALLOWED[socket, receiver]:
        raise WrongPlaceError(f"{name} may not arrive at the {receiver} on {socket}", msg_id)
    if view[1] not in VERSIONS:
        raise WireVersionError(f"wire version {view[1]} is not spoken here, {VERSION} is", msg_id)
    body = view[HEADER_BYTES:]
    if name in unread:
        message: Any = Packed(view[0], body)
    else:
        made_finite = (socket, receiver) in _FROM_MINIONS
        message, as_came = _read(name, body, limit, msg_id, made_finite)
        keep = keep and as_came
    reply_to = bytes(view[2 + ID_BYTES : HEADER_BYTES])
    return Envelope(msg_id, reply_to, message, view[1], body if keep else b"")


def head(frame: Union[bytes, bytearray]) -> Tuple[str, bytes]:
    """Return the name of a frame's message ("" if unknown) and its reply-to, without checks.

    Only for frames that are dropped; use `unpack` for all others.
    """
    name = TYPES.get(frame[0], "") if frame else ""
    return name, bytes(frame[2 + ID_BYTES : HEADER_BYTES])


def _read(
    name: str, body: Buffer, limit: Limit, msg_id: bytes, made_finite: bool
) -> Tuple[Any, bool]:
    """Return a body's message, and whether it equals the encoded body exactly."""
    if len(body) > UNCOPIED_BYTES and name == TYPES[_PIECE]:
        return _read_piece(body, limit, msg_id), True
    return _read_whole(name, body, limit, msg_id, made_finite)


def _read_piece(body: Buffer, limit: Limit, msg_id: bytes) -> Any:
    """Return a piece whose data stays in the frame's buffer; the reverse of `_before_data`."""
    found = bytes(body[:_PIECE_HEAD_BYTES]).find(_BEFORE_DATA)
    start = found + len(_BEFORE_DATA) + 4
    if found < 0 or int.from_bytes(body[start - 4 : start], "big") != len(body) - start:
        # Packed in another way, or not a piece: read it like any other message.
        return _read_whole(TYPES[_PIECE], body, limit, msg_id)[0]
    without = bytes(body[: start - 5]) + b"\xc4\0"
    piece, _ = _read_whole(TYPES[_PIECE], without, limit, msg_id)
    return replace(piece, data=memoryview(body)[start:])


def _read_whole(
    name: str, body: Buffer, limit: Limit, msg_id: bytes, made_finite: bool = False
) -> Tuple[Any, bool]:
    try:
        value, is_finite = _unpacked(body, limit)
        message = decode(record(name), value, name)
    except WireError as error:
        error.msg_id = msg_id
        raise
    except RecordError as error:
        raise FieldError(str(error)[:TEXT_LIMIT], msg_id) from None
    as_came = is_finite or not made_finite
    return message if as_came else finite_record(message), as_came


def only_field(body: Buffer, name: str) -> bytes:
    """Return the packed value of a message's only field; b"" if it is packed in another way.

    Args:
        body: of a message that was unpacked, so it is valid MessagePack of that type.
        name: of the only field, at most 31 characters.
    """
    head = b"\x81" + bytes((0xA0 | len(name),)) + name.encode()
    return bytes(body[len(head) :]) if body[: len(head)] == head else b""


def unpack_body(body: Buffer, limit: Limit) -> Any:
    """Return the plain value of a MessagePack body within *limit*.

    Keys of mappings may be numbers, as in YAML. MessagePack's integers have at most 64 bits, so at
    most a dozen share a hash, and no set of keys can make a dict slow.

    Raises:
        BodyError, BodyDepthError, BodySizeError: the body is invalid or exceeds *limit*.
    """
    return _unpacked(body, limit)[0]


def _unpacked(body: Buffer, limit: Limit) -> Tuple[Any, bool]:
    """Return the result of `unpack_body`, and whether all floats in it are finite."""
    try:
        value = msgpack.unpackb(body, raw=False, use_list=True, strict_map_key=False)
    except msgpack.exceptions.StackError:
        raise BodyDepthError(f"nests deeper than {limit.depth}") from None
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException) as error:
        # The text may quote a peer's bytes: keep it short and printable.
        raise BodyError(f"no MessagePack: {ascii(str(error))[:120]}") from None
    return value, _check_value(value, limit)


def _check_value(value: Any, limit: Limit) -> bool:
    """Return whether all floats in *value* are finite; raises like `unpack_body`."""
    level: List[Any] = [value]
    nodes, is_finite = 0, True
    for _ in range(limit.depth + 1):
        below: List[Any] = []
        nodes += len(level)
        if nodes > limit.nodes:
            raise BodySizeError(f"more than {limit.nodes} values")
        for item in level:
            kind = type(item)
            if kind is dict:
                kinds = set(map(type, item))
                if not kinds <= _KEYS:
                    raise BodyError("a mapping's key is neither text nor a number")
                if float in kinds:
                    below.extend(key for key in item if type(key) is float)
                nodes += len(item)
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif kind is float:
                is_finite = is_finite and isfinite(item)
            elif kind not in _PLAIN:
                raise BodyError(f"a value of type {kind.__name__}")
        if not below:
            return is_finite
        level = below
    raise BodyDepthError(f"nests deeper than {limit.depth}")
