"""The outgoing HTTP client against servers that mean harm."""

from __future__ import annotations

import gzip
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import NotAllowedError, UnreachableError, UsageError
from catena.transport.http import (
    AddressRefusedError,
    AddressRules,
    HttpClient,
    HttpError,
    HttpLimitError,
    HttpRequest,
    HttpTrust,
    ListenAddress,
)
from catena.transport.peers import Endpoints
from tests.integration.transport.http_servers import (
    client,
    get,
    hostile,
    make_certificate,
    page,
    redirect,
)

#: Other spellings of 169.254.169.254, where clouds serve the credentials of their machines.
METADATA = (
    "169.254.169.254",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[::a9fe:a9fe]",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.254.169.254.",
)
CREDENTIALS = {"Authorization": "Basic c2VjcmV0", "X-Auth-Token": "secret"}


# -- answers -----------------------------------------------------------------------------------


def test_response_has_status_headers_and_body() -> None:
    with hostile(page(b"gone", "X-Why: moved", status="410 Gone")) as server:
        found = client().send(
            HttpRequest(server.url + "a?b=c#d", headers={"accept": "text/plain"})
        )
    assert (found.status, found.body, found.header("x-why")) == (410, b"gone", "moved")
    (request,) = server.requests
    assert request.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n".encode() in request
    assert request.lower().count(b"accept:") == 1
    assert b"Accept-Encoding: identity\r\n" in request


def test_body_of_a_request_is_sent_with_its_length() -> None:
    with hostile(page(b"", status="204 No Content")) as server:
        assert client().send(HttpRequest(server.url, "POST", body=b"x" * 10)).status == 204
        assert client().send(HttpRequest(server.url, "POST")).status == 204
    assert b"Content-Length: 10\r\n" in server.requests[0]
    assert b"Content-Length: 0\r\n" in server.requests[1]


def test_response_to_head_has_no_body() -> None:
    with hostile(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") as server:
        assert client().send(HttpRequest(server.url, "HEAD")).body == b""


def test_chunked_and_compressed_response_is_decoded() -> None:
    body = gzip.compress(b"some text " * 100, mtime=0)
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    with hostile(head + chunks) as server:
        assert get(server).body == b"some text " * 100


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"\x16\x03\x01" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        page(b"abc", "Content-Encoding: br"),
        page(b"abc", "Content-Encoding: gzip, gzip"),
        page(b"no gzip at all", "Content-Encoding: gzip"),
        page(gzip.compress(b"abc", mtime=0)[:-4], "Content-Encoding: gzip"),
        page(gzip.compress(b"abc", mtime=0) + b"more", "Content-Encoding: gzip"),
    ],
)
def test_malformed_response_is_an_error(answer: bytes) -> None:
    with hostile(answer) as server, pytest.raises(HttpError):
        get(server)


@pytest.mark.parametrize("line", [b"X: " + b"a" * 70_000, b"X: 1\r\n" * 200])
def test_oversized_response_header_is_an_error(line: bytes) -> None:
    with hostile(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n") as server, pytest.raises(HttpError):
        get(server)


# -- redirects ---------------------------------------------------------------------------------


def _by_path(pages: dict[str, bytes]) -> Callable[[socket.socket, bytes], None]:
    def answer(conn: socket.socket, request: bytes) -> None:
        conn.sendall(pages[request.split()[1].decode()])

    return answer


def test_redirect_is_followed_to_the_last_answer() -> None:
    pages = {"/": redirect("/b/c"), "/b/c": redirect("d?e"), "/b/d?e": page(b"here")}
    with hostile(_by_path(pages)) as server:
        found = get(server)
    assert (found.url, found.body) == (server.url + "b/d?e", b"here")


def test_redirect_loop_is_an_error() -> None:
    with hostile(redirect("/")) as server, pytest.raises(HttpLimitError, match="more than 3"):
        get(server, redirects=3)
    assert len(server.requests) == 4


def test_redirect_is_returned_when_redirects_are_disabled() -> None:
    with hostile(redirect("/x")) as server:
        found = get(server, redirects=0)
    assert (found.status, found.header("Location")) == (302, "/x")


@pytest.mark.parametrize("host", [*METADATA, "[fe80::1%25lo]", "[fe80::1]", "0.0.0.0", "[::]"])
def test_redirect_to_a_refused_address_is_not_followed(host: str) -> None:
    with hostile(redirect(f"http://{host}/latest/meta-data/")) as server:
        with pytest.raises(NotAllowedError):
            get(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://x/"])
def test_redirect_to_another_scheme_is_not_followed(place: str) -> None:
    with hostile(redirect(place)) as server, pytest.raises(NotAllowedError, match="neither http"):
        get(server)


@pytest.mark.parametrize("place", ["http://u:p@127.0.0.1/", "http://a\\b/", "//:0/"])
def test_redirect_to_an_invalid_url_is_an_error(place: str) -> None:
    with hostile(redirect(place)) as server, pytest.raises(UsageError):
        get(server)


def test_credentials_are_not_sent_to_another_host() -> None:
    with hostile(page(b"")) as other:
        elsewhere = f"http://127.0.0.1:{other.port}/"
        pages = {"/": redirect("/same"), "/same": redirect(elsewhere)}
        with hostile(_by_path(pages)) as server:
            cookie = {"Cookie": "a=b", "X-Kept": "1"}
            client().send(HttpRequest(server.url, headers=cookie, credentials=CREDENTIALS))
    assert all(b"secret" in r and b"a=b" in r for r in server.requests)
    assert len(server.requests) == 2
    (request,) = other.requests
    assert b"X-Kept: 1" in request
    for word in (b"secret", b"c2VjcmV0", b"a=b", b"Authorization", b"Cookie"):
        assert word not in request


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other"])
def test_body_is_dropped_when_a_redirect_changes_to_get(status: str) -> None:
    pages = {"/": redirect("/b", status), "/b": page(b"done")}
    with hostile(_by_path(pages)) as server:
        typed = {"Content-Type": "text/plain"}
        client().send(HttpRequest(server.url, "POST", typed, body=b"private"))
    assert server.requests[1].startswith(b"GET /b ")
    assert b"private" not in server.requests[1]
    assert b"Content-" not in server.requests[1]


def test_body_is_not_sent_to_another_host() -> None:
    with hostile(page(b"")) as other:
        place = f"http://127.0.0.1:{other.port}/"
        with hostile(redirect(place, "307 Temporary")) as server:
            with pytest.raises(NotAllowedError, match="with a body"):
                client().send(HttpRequest(server.url, "POST", body=b"private"))
        assert other.requests == []


# -- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", METADATA)
def test_link_local_address_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(AddressRefusedError):
        client(seconds=1).send(HttpRequest(f"http://{host}/"))


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
def test_unusual_number_is_refused_though_its_address_is_allowed(host: str) -> None:
    with hostile(page(b"")) as server:
        with pytest.raises(AddressRefusedError, match="usual form"):
            client().send(HttpRequest(f"http://{host}:{server.port}/"))
    assert server.requests == []


@pytest.mark.parametrize("listens", ["127.0.0.1", "0.0.0.0", "::", "*", "lo"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost"])
def test_own_listener_is_refused(listens: str, host: str) -> None:
    with hostile(page(b"")) as server:
        rules = AddressRules((ListenAddress(listens, server.port),), ("127.0.0.0/8", "::/0"))
        with pytest.raises(AddressRefusedError, match="this master itself"):
            client(rules).send(HttpRequest(f"http://{host}:{server.port}/"))
        free = AddressRules((ListenAddress(listens, server.port + 1),))
        assert client(free).send(HttpRequest(f"http://127.0.0.1:{server.port}/")).status == 200


def test_listeners_are_read_from_the_addresses_of_the_sockets() -> None:
    endpoints = Endpoints.of("::1", 4505)
    assert ListenAddress.of(endpoints.enrol) == ListenAddress("::1", 4507)
    assert ListenAddress.of(Endpoints.of("0.0.0.0").control).host == "0.0.0.0"


def test_redirect_to_an_own_listener_is_refused() -> None:
    with hostile(page(b"")) as api, hostile(redirect(api.url)) as server:
        rules = AddressRules((ListenAddress("0.0.0.0", api.port),))
        with pytest.raises(AddressRefusedError):
            client(rules).send(HttpRequest(server.url))
        assert api.requests == []


def test_link_local_address_is_allowed_to_a_user_with_its_network() -> None:
    rules = AddressRules(allowed=("169.254.3.0/24", "fe80::/10"))
    rules.check("169.254.3.7", 443)
    rules.check("fe80::1%lo", 443)
    with pytest.raises(AddressRefusedError, match="link-local"):
        rules.check("169.254.169.254", 80)


@pytest.mark.parametrize(
    "host",
    ["fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "::ffff:100.100.100.200", "192.0.0.192"],
)
def test_metadata_service_of_a_cloud_is_refused_though_it_is_not_link_local(host: str) -> None:
    with pytest.raises(AddressRefusedError, match="metadata service"):
        AddressRules().check(host, 80)
    AddressRules(allowed=("fd00::/8", "100.64.0.0/10", "192.0.0.0/24")).check(host, 80)


def test_listener_on_all_addresses_covers_those_of_the_interfaces() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no route to anywhere")
        own = probe.getsockname()[0]
    with pytest.raises(AddressRefusedError, match="this master itself"):
        AddressRules((ListenAddress("0.0.0.0", 4506),)).check(own, 4506)
    AddressRules((ListenAddress("0.0.0.0", 4506),)).check("192.0.2.1", 4506)


def _answering(monkeypatch: pytest.MonkeyPatch, answers: list[list[str]]) -> list[str]:
    """Have the resolver give other addresses at each question; return the names asked for."""
    asked: list[str] = []

    def lookup(host: str, port: int, *_args: Any, **_kwargs: Any) -> list[Any]:
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return asked


def test_connection_uses_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(page(b"mine")) as server:
        asked = _answering(monkeypatch, [["127.0.0.1"], ["169.254.169.254"]])
        url = f"http://rebinding.example:{server.port}/"
        assert client().send(HttpRequest(url)).body == b"mine"
        assert asked == ["rebinding.example"]
        # The next request asks again, and gets the other answer.
        with pytest.raises(AddressRefusedError):
            client().send(HttpRequest(url))


def test_redirect_to_the_same_name_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(redirect("/next")) as server:
        _answering(monkeypatch, [["127.0.0.1"], ["169.254.169.254"]])
        with pytest.raises(AddressRefusedError):
            client().send(HttpRequest(f"http://rebinding.example:{server.port}/"))
    assert len(server.requests) == 1


def test_name_with_one_refused_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(page(b"")) as server:
        _answering(monkeypatch, [["127.0.0.1", "169.254.169.254"]])
        with pytest.raises(AddressRefusedError):
            client().send(HttpRequest(f"http://both.example:{server.port}/"))
    assert server.requests == []


def test_silent_name_server_ends_with_the_total_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def lookup(*_args: Any, **_kwargs: Any) -> list[Any]:
        over.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    try:
        with pytest.raises(UnreachableError, match="no name server"):
            client(seconds=0.2).send(HttpRequest("http://slow.example/"))
    finally:
        over.set()


def test_next_address_is_tried_when_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(page(b"second")) as server:
        _answering(monkeypatch, [["127.0.0.2", "127.0.0.1"]])
        url = f"http://two.example:{server.port}/"
        assert client().send(HttpRequest(url)).body == b"second"


def test_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(UnreachableError, match="refused"):
        client().send(HttpRequest(f"http://127.0.0.1:{port}/"))


# -- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("http://127.0.0.1/a b"),
        HttpRequest("http://127.0.0.1/\r\nX: 1"),
        HttpRequest("http://127.0.0.1/\x7f"),
        HttpRequest("http://127.0.0.1:99999/"),
        HttpRequest("http://user:pw@127.0.0.1/"),
        HttpRequest("http://127.0.0.1/", "GET / HTTP/1.1\r\nX:"),
        HttpRequest("http://127.0.0.1/", headers={"X": "1\r\nY: 2"}),
        HttpRequest("http://127.0.0.1/", headers={"X Y": "1"}),
        HttpRequest("http://127.0.0.1/", headers={"Host": "elsewhere"}),
        HttpRequest("http://127.0.0.1/", credentials={"Transfer-Encoding": "chunked"}),
    ],
)
def test_request_with_an_injected_second_one_is_refused(request_: HttpRequest) -> None:
    with pytest.raises(UsageError):
        client().send(request_)


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    with hostile(page(b"direct")) as server:
        assert get(server).body == b"direct"


def test_proxy_is_used_when_it_is_given() -> None:
    with hostile(page(b"by proxy")) as proxy:
        through = HttpClient(AddressRules(), proxy=proxy.url)
        assert through.send(HttpRequest("http://server.example/a")).body == b"by proxy"
        with pytest.raises(AddressRefusedError):
            through.send(HttpRequest("http://169.254.169.254/"))
        with pytest.raises(AddressRefusedError):
            through.send(HttpRequest("http://0xa9fea9fe/"))
    assert [r.split(b"\r\n")[0] for r in proxy.requests] == [
        b"GET http://server.example/a HTTP/1.1"
    ]


def test_proxy_that_refuses_a_tunnel_is_an_error() -> None:
    with hostile(b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        with pytest.raises(HttpError, match=r"refuses server\.example:443"):
            HttpClient(AddressRules(), proxy=proxy.url).send(
                HttpRequest("https://server.example/")
            )
    assert proxy.requests[0].startswith(b"CONNECT server.example:443 HTTP/1.1\r\n")


# -- TLS ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path, str]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


Certificate = tuple[ssl.SSLContext, Path, str]


def test_unknown_certificate_is_refused_before_anything_is_sent(certificate: Certificate) -> None:
    with hostile(page(b""), context=certificate[0]) as server:
        with pytest.raises(HttpError, match="certificate verify failed"):
            get(server)
    assert server.requests == []


def test_private_authority_is_trusted_only_for_its_names(certificate: Certificate) -> None:
    trusting = HttpClient(AddressRules(), trust=HttpTrust(ca_file=str(certificate[1])))
    with hostile(page(b"ours"), context=certificate[0]) as server:
        assert trusting.send(HttpRequest(server.url)).body == b"ours"
        with pytest.raises(HttpError, match="certificate verify failed"):
            trusting.send(HttpRequest(f"https://localhost:{server.port}/"))


def test_only_the_pinned_certificate_is_accepted(certificate: Certificate) -> None:
    context, _, fingerprint = certificate
    shown = ":".join(fingerprint[at : at + 2].upper() for at in range(0, 64, 2))
    pinned = HttpClient(AddressRules(), trust=HttpTrust(fingerprint=shown))
    other = HttpClient(AddressRules(), trust=HttpTrust(fingerprint="0" * 64))
    with hostile(page(b"pinned"), context=context) as server:
        assert pinned.send(HttpRequest(server.url)).body == b"pinned"
        seen = len(server.requests)
        with pytest.raises(HttpError, match=f"another certificate, SHA-256 {fingerprint}"):
            other.send(HttpRequest(server.url, credentials=CREDENTIALS))
        assert len(server.requests) == seen


def test_redirect_from_https_to_http_is_refused_with_credentials(certificate: Certificate) -> None:
    trusting = HttpClient(AddressRules(), trust=HttpTrust(fingerprint=certificate[2]))
    with (
        hostile(page(b"plain")) as plain,
        hostile(redirect(plain.url), context=certificate[0]) as tls,
    ):
        for request in (
            HttpRequest(tls.url, credentials={"X-Key": "1"}),
            HttpRequest(tls.url, headers={"authorization": "Basic eA=="}),
        ):
            with pytest.raises(NotAllowedError, match="without encryption"):
                trusting.send(request)
        assert plain.requests == []
        assert trusting.send(HttpRequest(tls.url)).body == b"plain"


def test_silent_tls_server_ends_with_the_total_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"https://127.0.0.1:{sock.getsockname()[1]}/"
        with pytest.raises(HttpLimitError, match="not complete within"):
            client(seconds=1.0).send(HttpRequest(url))


# -- files -------------------------------------------------------------------------------------


def test_file_is_saved_with_its_hash(tmp_path: Path) -> None:
    body = bytes(range(256)) * 300
    with hostile(page(body)) as server:
        found = client().save(HttpRequest(server.url), tmp_path / "image")
    assert (found.size, found.sha256) == (len(body), hashlib.sha256(body).hexdigest())
    assert found.path.read_bytes() == body
    assert found.path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [found.path]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (page(b"other"), "the content has SHA-256"),
        (page(b"no", status="404 Not Found"), "answered 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "ended early"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(200_000), "limit of"),
    ],
)
def test_existing_file_is_kept_when_the_download_fails(
    tmp_path: Path, answer: bytes, expected: str
) -> None:
    file = tmp_path / "image"
    file.write_text("old")
    with hostile(answer) as server, pytest.raises((HttpError, HttpLimitError), match=expected):
        client().save(HttpRequest(server.url), file, hashlib.sha256(b"wanted").hexdigest())
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("image", "old")]


def test_disk_error_is_not_reported_as_a_network_error(tmp_path: Path) -> None:
    with hostile(page(b"x")) as server, pytest.raises(FileNotFoundError):
        client().save(HttpRequest(server.url), tmp_path / "no folder" / "image")
