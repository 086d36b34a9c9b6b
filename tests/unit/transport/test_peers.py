from __future__ import annotations

import pytest

from catena.transport.keys import BOOTSTRAP, BadKeyError, generate, key_bytes
from catena.transport.peers import Endpoints, KeyTable
from catena.transport.sockets import (
    CLIENT_OPTIONS,
    SERVER_OPTIONS,
    ZAP_DOMAIN,
    Family,
    OldLibzmqError,
    family,
    require_libzmq,
)
from catena.transport.wire import LIMITS
from catena.transport.zap import decide, metadata


def test_endpoints_are_derived_from_host_and_port() -> None:
    assert Endpoints.of("master.example", 5000) == Endpoints(
        "tcp://master.example:5000", "tcp://master.example:5001", "tcp://master.example:5002"
    )
    assert Endpoints.of("::1").named("enrol") == "tcp://[::1]:4607"
    assert Endpoints.of("[::1]").control == "tcp://[::1]:4605"


def test_key_table_finds_keys_by_bytes_and_fingerprint() -> None:
    one, two = generate(), generate()
    table = KeyTable([one.public])
    assert one.fingerprint in table
    assert two.fingerprint not in table
    assert table.user_id_of(key_bytes(one.public)) == one.fingerprint
    assert table.key_of(one.fingerprint) == one.public
    assert len(table) == 1
    with pytest.raises(BadKeyError):
        table.accept("nonsense")


def test_revoked_key_is_removed_and_reported_once() -> None:
    pair = generate()
    table = KeyTable([pair.public])
    heard: list[str] = []
    table.on_revoke(heard.append)
    table.revoke(pair.public)
    table.revoke(pair.public)
    assert heard == [pair.fingerprint]
    assert len(table) == 0
    assert table.user_id_of(key_bytes(pair.public)) is None


@pytest.mark.parametrize(
    ("domain", "accepted", "status"),
    [
        (ZAP_DOMAIN["control"], True, b"200"),
        (ZAP_DOMAIN["control"], False, b"400"),
        (ZAP_DOMAIN["bulk"], True, b"200"),
        (ZAP_DOMAIN["bulk"], False, b"400"),
        (ZAP_DOMAIN["enrol"], True, b"200"),
        (ZAP_DOMAIN["enrol"], False, b"200"),
        (b"", True, b"400"),
        (b"global", True, b"400"),
    ],
)
def test_zap_domain_decides_which_keys_are_admitted(
    domain: bytes, accepted: bool, status: bytes
) -> None:
    pair = generate()
    table = KeyTable([pair.public] if accepted else [])
    found, user_id, key = decide(domain, key_bytes(pair.public), table)
    assert found == status
    expected = (pair.fingerprint, pair.public) if status == b"200" else ("", "")
    assert (user_id, key) == expected


@pytest.mark.parametrize("raw", [b"", b"x" * 31, b"x" * 33])
def test_zap_credential_of_a_wrong_size_is_refused(raw: bytes) -> None:
    for domain in ZAP_DOMAIN.values():
        assert decide(domain, raw, KeyTable())[0] == b"400"


def test_published_bootstrap_key_is_refused_on_control() -> None:
    raw = key_bytes(BOOTSTRAP.public)
    assert decide(ZAP_DOMAIN["control"], raw, KeyTable([generate().public]))[0] == b"400"


def test_zap_metadata_is_encoded_as_zmtp_properties() -> None:
    assert metadata({"X-Key": "ab"}) == b"\x05X-Key\0\0\0\x02ab"


@pytest.mark.parametrize("version", [(4, 3, 3), (4, 2, 9), (3, 9, 9)])
def test_old_libzmq_is_refused(version: tuple[int, ...]) -> None:
    with pytest.raises(OldLibzmqError, match="known security holes"):
        require_libzmq(version)
    require_libzmq((4, 3, 4))


def test_socket_limit_admits_every_frame_that_the_codec_accepts() -> None:
    import zmq

    for name, options in SERVER_OPTIONS.items():
        assert options[zmq.MAXMSGSIZE] >= LIMITS[name, "master"].frame_bytes
    for name, options in CLIENT_OPTIONS.items():
        assert options[zmq.MAXMSGSIZE] >= LIMITS[name, "minion"].frame_bytes


def test_every_server_socket_has_the_protective_options() -> None:
    import zmq

    for options in SERVER_OPTIONS.values():
        assert options[zmq.CURVE_SERVER] == 1
        assert options[zmq.ZAP_ENFORCE_DOMAIN] == 1
        assert options[zmq.ROUTER_MANDATORY] == 1
        assert options[zmq.ROUTER_HANDOVER] == 0


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://192.0.2.1:4605", Family.ipv4),
        ("tcp://*:4605", Family.ipv4),
        ("tcp://[::1]:4605", Family.ipv6),
        ("tcp://localhost:4605", Family.name),
        ("tcp://10.example:4605", Family.name),
    ],
)
def test_endpoint_is_classified_as_address_or_name(endpoint: str, expected: Family) -> None:
    assert family(endpoint) is expected
