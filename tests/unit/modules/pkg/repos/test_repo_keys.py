"""Where the key of a repository is from."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules import http
from catena.modules.http import HttpAnswer, Request
from catena.modules.pkg.repos import keys
from catena.modules.pkg.repos.keys import (
    KeySource,
    key_id,
    key_source,
    lookup_address,
    wanted_keyring,
)
from catena.modules.pkg.repos.openpgp import KEY_LIMIT, binary_keyring
from tests.support.openpgp_keys import CURVE, CURVE_FINGERPRINT, CURVE_ID, RSA, RSA_ID
from tests.unit.states.conftest import MakeWorld


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        (CURVE_ID, CURVE_ID),
        (f"0x{CURVE_ID.lower()}", CURVE_ID),
        ("0D8A D378 2806 256A CF03  2C72 EC67 AE79 D00B 4420", CURVE_FINGERPRINT),
        (0xEC67AE79, "EC67AE79"),
        (0x0EC67AE79, "EC67AE79"),
        (12345678, "12345678"),
    ],
)
def test_id_is_read_as_yaml_gives_it(value: object, digits: str) -> None:
    assert key_id(value) == digits


@pytest.mark.parametrize("value", ["", "xyz", "1234", "EC67AE79 && x"])
def test_what_is_no_id_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="no key id"):
        key_id(value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key_url": "salt://k", "keyid": RSA_ID, "keyserver": "s"}, '"key_url" argument'),
        ({"key_text": CURVE, "keyserver": "s"}, '"key_text" argument'),
        ({"key_text": CURVE, "key_url": "salt://k"}, '"key_url" and "key_text"'),
        ({"keyid": RSA_ID}, "both keyserver and keyid"),
        ({"keyserver": "s"}, "both keyserver and keyid"),
    ],
)
def test_contradicting_arguments_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        key_source(options)


@pytest.mark.parametrize(
    ("server", "start"),
    [
        ("keys.example", "https://keys.example/pks/lookup?"),
        ("hkp://keys.example", "http://keys.example:11371/pks/lookup?"),
        ("hkp://keys.example:80", "http://keys.example:80/pks/lookup?"),
        ("hkps://keys.example", "https://keys.example/pks/lookup?"),
        ("http://keys.example", "http://keys.example/pks/lookup?"),
    ],
)
def test_address_of_a_key_on_a_server(server: str, start: str) -> None:
    found = lookup_address(server, RSA_ID)
    assert found.startswith(start) and found.endswith(f"search=0x{RSA_ID}")


@pytest.mark.parametrize("server", ["ldap://keys.example", "", "file:///etc/passwd"])
def test_server_that_is_none_is_refused(server: str) -> None:
    with pytest.raises(UsageError, match="no key server"):
        lookup_address(server, RSA_ID)


def test_key_of_a_server_is_fetched_once_and_must_have_the_id(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(request: Request) -> HttpAnswer:
        asked.append(request.url)
        return HttpAnswer(RSA.encode(), 200)

    monkeypatch.setattr(http, "ask", ask)
    context = world().context
    one, two = binary_keyring(CURVE.encode(), "k"), binary_keyring(RSA.encode(), "k")
    wanted = KeySource(ids=(CURVE_ID, RSA_ID), server="keys.example")
    for _ in range(2):
        assert wanted_keyring(context, wanted, one) == one + two
    assert wanted_keyring(context, wanted, one + two) == one + two
    assert len(asked) == 1
    with pytest.raises(CommandExecutionError, match="another key than"):
        wanted_keyring(context, wanted, two)


def test_failure_of_a_server_is_reported(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ask", lambda request: HttpAnswer(status=404, error="HTTP 404"))
    wanted = KeySource(ids=(CURVE_ID,), server="keys.example")
    with pytest.raises(CommandExecutionError, match=f"key {CURVE_ID} of keys.example: HTTP 404"):
        wanted_keyring(world().context, wanted, b"")


def test_key_of_the_file_server_is_read(world: MakeWorld) -> None:
    context = world(files={"k.asc": CURVE, "page": "<html>"}).context
    found = wanted_keyring(context, KeySource(urls=("salt://k.asc",)), b"")
    assert found == binary_keyring(CURVE.encode(), "k")
    with pytest.raises(CommandExecutionError, match=r"salt://page: .*HTML"):
        wanted_keyring(context, KeySource(urls=("salt://page",)), b"")
    with pytest.raises(CommandExecutionError, match="salt://none"):
        wanted_keyring(context, KeySource(urls=("salt://none",)), b"")


class Server(BaseHTTPRequestHandler):
    """Serves a key, too much, or a byte now and then."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.server.asked.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        try:
            if self.path == "/key":
                self.wfile.write(CURVE.encode())
            elif self.path == "/long":
                self.wfile.write(b"x" * (KEY_LIMIT + 1))
            while self.path == "/slow" and not self.server.done.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write(b"x")
        except OSError:
            return

    def log_message(self, *given: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    made.asked, made.done = [], Event()
    thread = Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.done.set()
    made.shutdown()
    thread.join()
    made.server_close()


def address(server: Any, path: str, user: str = "") -> str:
    return f"http://{user}127.0.0.1:{server.server_address[1]}{path}"


def test_key_is_downloaded_once_with_the_password_of_its_address(
    world: MakeWorld, server: Any
) -> None:
    context = world().context
    source = KeySource((address(server, "/key", "bob:s%40cret@"),))
    for _ in range(2):
        assert wanted_keyring(context, source, b"") == binary_keyring(CURVE.encode(), "k")
    assert server.asked == ["Basic " + b64encode(b"bob:s@cret").decode()]


def test_download_of_a_key_is_limited_in_size(world: MakeWorld, server: Any) -> None:
    source = KeySource((address(server, "/long", "bob:s3cret@"),))
    with pytest.raises(CommandExecutionError, match="longer than 4194304 bytes") as caught:
        wanted_keyring(world().context, source, b"")
    assert "s3cret" not in str(caught.value)


def test_download_of_a_key_ends_at_its_deadline(
    world: MakeWorld, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "DOWNLOAD_SECONDS", 0.3)
    with pytest.raises(CommandExecutionError, match=r"took longer than 0\.3 seconds"):
        wanted_keyring(world().context, KeySource((address(server, "/slow"),)), b"")
