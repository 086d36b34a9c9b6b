from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, Dict, Union, cast, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.core.errors import PeerError
from catena.core.job import JobProgress, JobReturn
from catena.transport import return_parts, wire
from catena.transport.messages import (
    ALLOWED,
    PIECE_BYTES,
    TYPES,
    ChunkReply,
    ClientReply,
    ClientRequest,
    EnrolProbe,
    EnrolRequest,
    EventFired,
    GrainsUpdate,
    Hello,
    JobProgressed,
    JobReturned,
    PillarReply,
    Ping,
    Pong,
    record,
)

NUMBERS = {name: number for number, name in TYPES.items()}
MESSAGES = [record(name) for name in NUMBERS]

# Plain values as they may travel: text without surrogates, integers of 64 bits.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    # Others arrive from minions as text.
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for one field of a message."""
    if hint is Any:
        return VALUES
    if dataclasses.is_dataclass(hint):
        return records_of(hint)  # type: ignore[arg-type]
    origin = get_origin(hint)
    if origin is Union:
        return st.one_of(*map(values_of, get_args(hint)))
    if origin is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(TEXT, values_of(get_args(hint)[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        return st.sampled_from(list(cast("type[Enum]", hint)))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False),
        str: TEXT,
        bytes: st.binary(max_size=50),
    }
    return plain[hint]


def records_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: values_of(hints[f.name]) for f in dataclasses.fields(kind)})


def places(kind: type[Any]) -> list[tuple[str, str]]:
    return [place for place, names in ALLOWED.items() if kind.__name__ in names]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data(), msg_id=st.binary(min_size=16, max_size=16))
@settings(max_examples=15)
def test_every_message_arrives_as_it_was_sent(
    kind: type[Any], data: st.DataObject, msg_id: bytes
) -> None:
    message = data.draw(records_of(kind))
    frame = wire.pack(message, msg_id=msg_id, reply_to=b"r" * 16)
    for socket, receiver in places(kind):
        envelope = wire.unpack(frame, socket=socket, receiver=receiver)
        assert envelope.message == message
        assert (envelope.msg_id, envelope.reply_to) == (msg_id, b"r" * 16)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_is_accepted_only_on_its_own_sockets(kind: type[Any]) -> None:
    frame = bytes([NUMBERS[kind.__name__], wire.VERSION]) + bytes(32)
    assert places(kind), f"{kind.__name__} can never be sent"
    for socket, receiver in ALLOWED.keys() - set(places(kind)):
        with pytest.raises(wire.WrongPlaceError, match=kind.__name__):
            wire.unpack(frame, socket=socket, receiver=receiver)


@given(st.sampled_from(sorted(ALLOWED)), st.binary(max_size=400))
@settings(max_examples=300)
def test_random_bytes_raise_only_peer_errors(place: tuple[str, str], noise: bytes) -> None:
    try:
        wire.unpack(noise, socket=place[0], receiver=place[1])
    except wire.WireError as error:
        assert isinstance(error, PeerError)
        assert str(error).isprintable()


@given(st.sampled_from(sorted(ALLOWED)), st.data(), st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bytes_after_a_valid_header_raise_a_peer_error(
    place: tuple[str, str], data: st.DataObject, noise: bytes
) -> None:
    kind = record(data.draw(st.sampled_from(sorted(ALLOWED[place]))))
    number = NUMBERS[kind.__name__]
    try:
        wire.unpack(bytes([number, 1]) + bytes(32) + noise, socket=place[0], receiver=place[1])
    except wire.WireError as error:
        assert error.msg_id == bytes(16)


@given(st.data())
@settings(max_examples=200)
def test_changed_byte_raises_no_error_but_a_wire_error(data: st.DataObject) -> None:
    frame = bytearray(
        wire.pack(Hello("m", "x", "b", "s", "1", "minion", True, {"os": ["a", 1]}, ("1",)))
    )
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        got = wire.unpack(frame, socket="control", receiver="master")
    except wire.WireError:
        return
    assert type(got.message).__name__ in ALLOWED["control", "master"]


def head(number: int = 13, version: int = 1) -> bytes:
    return bytes([number, version]) + b"i" * 16 + bytes(16)


def deep(levels: int) -> bytes:
    return b"\x91" * levels + b"\xc0"


def ping(seq: Any) -> bytes:
    return head() + msgpack.packb({"seq": seq})


def event(data: bytes) -> bytes:
    whole = msgpack.packb({"event_id": "1", "tag": "t", "data": {}})
    return head(30) + whole[:-1] + data


BAD = [
    ("empty", b"", wire.ShortFrameError, "no header"),
    ("header cut", head()[:-1], wire.ShortFrameError, "33 bytes"),
    ("type 0", head(0), wire.UnknownTypeError, "type 0"),
    ("type 255", head(255), wire.UnknownTypeError, "type 255"),
    ("version 0", head(version=0), wire.WireVersionError, "version 0"),
    ("version 2", head(version=2), wire.WireVersionError, "version 2"),
    ("no body", head(), wire.BodyError, "MessagePack"),
    ("body not a mapping", head() + b"\x90", wire.FieldError, "Ping"),
    ("trailing bytes", head() + msgpack.packb({"seq": 1}) + b"\xc0", wire.BodyError, "extra"),
    ("missing field", head() + b"\x80", wire.FieldError, "seq"),
    ("wrong type", ping("1"), wire.FieldError, "seq"),
    ("bool is no int", ping(True), wire.FieldError, "bool"),
    ("unknown field", head() + msgpack.packb({"seq": 1, "sec": 2}), wire.FieldError, "'sec'"),
    ("extension type", ping(msgpack.ExtType(5, b"x")), wire.BodyError, "ExtType"),
    ("timestamp", ping(msgpack.Timestamp(5)), wire.BodyError, "Timestamp"),
    ("binary key", head() + msgpack.packb({b"seq": 1}), wire.BodyError, "key"),
    ("list as key", head() + b"\x81\x91\x01\x01", wire.BodyError, "MessagePack"),
    ("invalid UTF-8", head() + b"\x81\xa1\xff\x01", wire.BodyError, "MessagePack"),
    ("promised array", head() + b"\xdd\xff\xff\xff\xff", wire.BodyError, "MessagePack"),
    ("promised string", head() + b"\xdb\xff\xff\xff\xff", wire.BodyError, "MessagePack"),
    ("deep", event(deep(150)), wire.BodyDepthError, "100"),
    ("very deep", head() + deep(5000), wire.BodyDepthError, "100"),
    ("large", head() + bytes(300_000), wire.LargeFrameError, "300034 bytes"),
]


@pytest.mark.parametrize(("frame", "kind", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_malformed_frame_error_names_what_is_wrong(
    frame: bytes, kind: type[wire.WireError], text: str
) -> None:
    with pytest.raises(kind, match=text) as found:
        wire.unpack(frame, socket="control", receiver="master")
    assert type(found.value) is kind
    assert found.value.msg_id == (b"i" * 16 if len(frame) >= 34 else bytes(16))


def test_too_many_small_values_are_refused() -> None:
    body = b"\xdd" + (2_500_000).to_bytes(4, "big") + b"\xc0" * 2_500_000
    with pytest.raises(wire.BodySizeError, match="2000000"):
        wire.unpack_body(body, wire.LIMITS["local", "master"])


def test_enrol_socket_refuses_large_messages() -> None:
    large = EnrolRequest("m" * 5000, "x", "1")
    with pytest.raises(wire.LargeFrameError):
        wire.unpack(wire.pack(large), socket="enrol", receiver="master")
    with pytest.raises(wire.MessageTooLargeError, match=r"EnrolRequest: 50.. bytes"):
        wire.check_outgoing(wire.pack(large), socket="enrol", receiver="master")


def test_nesting_is_allowed_up_to_the_limit() -> None:
    def nested(levels: int) -> Any:
        value: Any = None
        for _ in range(levels):
            value = [value]
        return value

    limit = wire.Limit(1000, depth=10)
    assert wire.unpack_body(wire.pack_body(nested(10)), limit) == nested(10)
    with pytest.raises(wire.BodyDepthError):
        wire.unpack_body(wire.pack_body(nested(11)), limit)


def test_keys_that_are_not_text_arrive_unchanged() -> None:
    pillar = {"ports": {80: "http", 1.5: "x", True: "y", None: "z"}}
    frame = wire.pack(PillarReply(pillar))
    assert wire.unpack(frame, socket="control", receiver="minion").message.pillar == pillar


def test_text_that_is_not_valid_unicode_is_sent_escaped() -> None:
    frame = wire.pack(EventFired("1", "t", {"file": "caf\udce9"}))
    message = wire.unpack(frame, socket="control", receiver="master").message
    assert message.data == {"file": "caf\\udce9"}


ODD_NUMBERS: Dict[str, Any] = {
    "n": [float("nan"), 1.5],
    "i": float("inf"),
    "of": {float("-inf"): 0.0},
}
AS_TEXT: Dict[str, Any] = {"n": ["nan", 1.5], "i": "inf", "of": {"-inf": 0.0}}


def returning(value: Any) -> JobReturn:
    return JobReturn("20260101000000000000", "cmd.run", (), True, 0, value, 1.0, 2.0)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (EventFired("1", "t", ODD_NUMBERS), EventFired("1", "t", AS_TEXT)),
        (GrainsUpdate(ODD_NUMBERS), GrainsUpdate(AS_TEXT)),
        (
            JobProgressed(JobProgress("2" * 20, 1, "note", {"a": ODD_NUMBERS})),
            JobProgressed(JobProgress("2" * 20, 1, "note", {"a": AS_TEXT})),
        ),
        (JobReturned(returning(ODD_NUMBERS)), JobReturned(returning(AS_TEXT))),
    ],
    ids=["event", "grains", "progress", "return"],
)
def test_nan_and_infinity_from_a_minion_arrive_as_text(message: Any, expected: Any) -> None:
    found = wire.unpack(wire.pack(message), socket="control", receiver="master", keep=True)
    assert found.message == expected
    # What came is not what is said now, and must not be stored.
    assert found.body == b""
    again = wire.unpack(wire.pack(expected), socket="control", receiver="master", keep=True)
    assert again.body != b""


def test_large_return_has_nan_and_infinity_as_text() -> None:
    parts = return_parts.split_return(returning([ODD_NUMBERS, "x" * 2_000_000]))
    assert return_parts.join_return(parts, 10_000_000).ret.value[0] == AS_TEXT


def test_arguments_and_pillar_keep_infinity_as_a_number() -> None:
    asked = wire.pack(ClientRequest("job.run", {"args": [float("inf")]}))
    message = wire.unpack(asked, socket="local", receiver="master").message
    assert message.params == {"args": [float("inf")]}
    frame = wire.pack(PillarReply({"limit": float("inf")}))
    assert wire.unpack(frame, socket="control", receiver="minion").message.pillar == {
        "limit": float("inf")
    }


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 20261122144001123456])
def test_integer_of_more_than_64_bits_is_sent_as_decimal_text(number: int) -> None:
    params = {"args": [number, [number]], "kwargs": {"jid": number, number: 2**64 - 1}}
    frame = wire.pack(ClientRequest("runner.call", params))
    message = wire.unpack(frame, socket="local", receiver="master").message
    text = str(number)
    assert message.params == {
        "args": [text, [text]],
        "kwargs": {"jid": text, text: 2**64 - 1},
    }


@pytest.mark.parametrize("value", [{1, 2}, object(), [[]]], ids=["set", "object", "endless"])
def test_value_that_cannot_be_packed_raises_an_error_at_the_sender(value: Any) -> None:
    if value == [[]]:
        value[0].append(value)
    with pytest.raises(wire.NotPackableError):
        wire.pack(ClientReply(value))


def test_only_messages_are_packed() -> None:
    with pytest.raises(wire.NotPackableError, match="dict is not a message"):
        wire.pack({"seq": 1})
    with pytest.raises(wire.NotPackableError, match="16 bytes"):
        wire.pack(Ping(1), msg_id=b"short")


def test_empty_reply_to_means_no_reply() -> None:
    frame = wire.pack(Pong(1), reply_to=b"")
    assert wire.unpack(frame, socket="control", receiver="master").reply_to == wire.ZERO


def test_message_ids_are_generated_when_none_is_given() -> None:
    frames = {wire.pack(EnrolProbe())[2:18] for _ in range(100)}
    assert len(frames) == 100


def test_every_socket_and_receiver_has_a_size_limit() -> None:
    assert wire.LIMITS.keys() == ALLOWED.keys()


def test_job_request_arrives_unchanged() -> None:
    frame = wire.pack(ClientRequest("job.run", {"tgt": "*", "fun": "test.ping"}))
    message = wire.unpack(frame, socket="local", receiver="master").message
    assert message == ClientRequest("job.run", {"tgt": "*", "fun": "test.ping"})
    assert "JobOrder" in ALLOWED["control", "minion"]


def a_return(size: int) -> JobReturn:
    return JobReturn("2" * 20, "cmd.run", (), True, 0, "x" * size, 1.0, 2.0)


@given(st.integers(0, 5000), st.integers(1, 700), st.randoms())
@settings(max_examples=50)
def test_return_split_into_parts_is_joined_unchanged(size: int, piece: int, chance: Any) -> None:
    parts = return_parts.split_return(a_return(size), piece)
    chance.shuffle(parts)
    assert return_parts.join_return(parts, 100_000) == JobReturned(a_return(size))


def test_return_parts_that_do_not_match_are_refused() -> None:
    parts = return_parts.split_return(a_return(1000), 300)
    other = return_parts.split_return(a_return(1001), 300)
    forged = dataclasses.replace(parts[1], data=b"y" * len(parts[1].data))
    renamed = [dataclasses.replace(part, jid="3" * 20) for part in parts]
    for bad, text in [
        ([], "missing"),
        (parts[:-1], "missing"),
        ([*parts, parts[0]], "duplicated"),
        ([other[0], *parts[1:]], "different"),
        ([parts[0], forged, *parts[2:]], "SHA-256"),
        (renamed, "another job"),
    ]:
        with pytest.raises(wire.PartsError, match=text):
            return_parts.join_return(bad, 100_000)
    with pytest.raises(wire.LargeFrameError):
        return_parts.join_return(parts, 999)


def test_return_part_fits_the_bulk_socket() -> None:
    part = return_parts.split_return(a_return(3 * wire.CHUNK_BYTES))[0]
    frame = wire.pack(part)
    wire.check_outgoing(frame, socket="bulk", receiver="master")
    assert wire.unpack(frame, socket="bulk", receiver="master").message == part


def test_message_body_is_kept_as_received() -> None:
    reply = ChunkReply("0" * 64, 7, b"\x00piece")
    came = wire.pack(reply)
    kept = wire.unpack(came, socket="bulk", receiver="minion", keep=True)
    assert kept.message == reply and bytes(kept.body) == came[wire.HEADER_BYTES :]
    assert wire.unpack(came, socket="bulk", receiver="minion").body == b""


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, PIECE_BYTES])
def test_file_chunk_is_packed_like_any_message(size: int) -> None:
    reply = ChunkReply("0" * 64, 1 << 40, b"p" * size)
    frame = wire.pack(reply, msg_id=b"m" * 16)
    assert wire.unpack(frame, socket="bulk", receiver="minion").message == reply
    assert b"".join(wire.parts(reply, msg_id=b"m" * 16)) == frame
    wire.check_outgoing(wire.packed(reply), socket="bulk", receiver="minion")


def test_data_of_a_large_file_chunk_is_not_copied() -> None:
    frame = bytearray(wire.pack(ChunkReply("0" * 64, 7, b"p" * PIECE_BYTES)))
    piece = wire.unpack(frame, socket="local", receiver="job").message
    frame[-1:] = b"q"
    assert piece.data[-2:] == b"pq" and len(piece.data) == PIECE_BYTES


@pytest.mark.parametrize(
    "fields",
    [
        {"data": bytes(2 * wire.UNCOPIED_BYTES), "sha256": "0" * 64, "offset": 7},
        {"sha256": "\xa4data\xc6" * 9, "offset": 7, "data": bytes(2 * wire.UNCOPIED_BYTES)},
    ],
)
def test_large_file_chunk_in_another_encoding_is_read_like_any_message(
    fields: dict[str, Any],
) -> None:
    head = wire.pack(ChunkReply("", 0, b""))[: wire.HEADER_BYTES]
    frame = head + wire.pack_body(fields)
    assert wire.unpack(frame, socket="bulk", receiver="minion").message == ChunkReply(**fields)


def test_large_file_chunk_is_checked_like_any_message() -> None:
    frame = wire.pack(ChunkReply("0" * 64, 7, bytes(2 * wire.UNCOPIED_BYTES)))
    with pytest.raises(wire.FieldError):
        wire.unpack(frame.replace(b"offset", b"offsat"), socket="bulk", receiver="minion")


def test_oversized_file_chunk_is_not_sent() -> None:
    reply = ChunkReply("0" * 64, 0, bytes(PIECE_BYTES + 64 * wire.KIB))
    with pytest.raises(wire.MessageTooLargeError):
        wire.check_outgoing(wire.packed(reply), socket="bulk", receiver="minion")


UNREAD = frozenset({"ChunkReply"})


def test_message_that_is_not_decoded_is_forwarded_unchanged() -> None:
    reply = ChunkReply("0" * 64, 7, b"\x00piece")
    came = wire.pack(reply, reply_to=b"r" * 16)
    passed = wire.unpack(came, socket="bulk", receiver="minion", unread=UNREAD)
    assert passed.reply_to == b"r" * 16
    head, body = wire.parts(passed.message, reply_to=b"s" * 16)
    again = wire.unpack(head + body, socket="local", receiver="job")
    assert (again.message, again.reply_to) == (reply, b"s" * 16)


def test_forwarded_message_is_checked_by_its_final_reader() -> None:
    broken = wire.pack(ChunkReply("0" * 64, 7, b"piece"))[:-1]
    passed = wire.unpack(broken, socket="bulk", receiver="minion", unread=UNREAD)
    with pytest.raises(wire.BodyError):
        wire.unpack(wire.pack(passed.message), socket="local", receiver="job")
    with pytest.raises(wire.WrongPlaceError):
        wire.unpack(broken, socket="control", receiver="minion", unread=UNREAD)


def test_only_field_returns_the_packed_bytes_of_a_single_field() -> None:
    ret = {"jid": "1", "value": b"\xff"}
    usual = msgpack.packb({"ret": ret})
    assert msgpack.unpackb(wire.only_field(memoryview(usual), "ret")) == ret
    # The same value in another form of MessagePack, or another message.
    assert wire.only_field(b"\xde\x00\x01" + usual[1:], "ret") == b""
    assert wire.only_field(msgpack.packb({"more": 1, "ret": ret}), "ret") == b""
    assert wire.only_field(b"", "ret") == b""


def test_failed_packing_leaves_nothing_in_the_next_message() -> None:
    usual = wire.pack_body(Ping(7))
    for bad in ({1}, object(), _nested()):
        with pytest.raises(wire.NotPackableError):
            wire.pack_body(EventFired("1", "app/x", {"begun": "x" * 100, "then": bad}))
        assert wire.pack_body(Ping(7)) == usual
    large = {"text": "x" * (wire.KEPT_PACKER_BYTES + 1)}
    assert msgpack.unpackb(wire.pack_body(large)) == large
    assert wire.pack_body(Ping(7)) == usual


def _nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    return found
