"""Outgoing HTTP with limits on time, size, redirects and reachable addresses.

It serves the master and its engines, which call management controllers, agents with an HTTP API,
image servers and webhooks. Calls block; a program with an event loop makes them in a thread.
Proxy settings in the environment are ignored. An engine makes one client for each purpose, with
the networks that its setting allows, and needs no other module:

    own = tuple(ListenAddress.of(each) for each in ("tcp://0.0.0.0:4505", "tcp://0.0.0.0:4506"))
    rules = AddressRules(listeners=own, allowed=("169.254.3.0/24",))
    client = HttpClient(rules, HttpLimits(seconds=10.0), HttpTrust(ca_file="/etc/ssl/bmc.pem"))
    request = HttpRequest("https://bmc1/redfish/v1/", credentials={"X-Auth-Token": token})
    response = await asyncio.to_thread(client.send, request)

Errors of an exchange are `UnreachableError`, `HttpError` and `HttpLimitError`; what the rules
refuse is an `AddressRefusedError`. A status of 400 or more is a response.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import socket
import ssl
import zlib
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union
from urllib.parse import SplitResult, urljoin, urlsplit

from catena.core.digest import same_digest
from catena.core.errors import ConfigError, NotAllowedError, UnreachableError, UsageError
from catena.core.files import rename_durable, write_all
from catena.core.frozen import dataclass, field
from catena.transport.http_addresses import (
    AddressRefusedError,
    AddressRules,
    ListenAddress,
    refuse_ambiguous,
    resolve,
)
from catena.transport.http_wire import (
    Deadline,
    HttpError,
    HttpLimitError,
    answer_of,
    body_of,
    connect,
    secure,
    send,
)

__all__ = [
    "AddressRefusedError",
    "AddressRules",
    "HttpClient",
    "HttpError",
    "HttpLimitError",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "HttpTrust",
    "ListenAddress",
    "SavedFile",
]

T = TypeVar("T")

#: Exceptions of an exchange other than refusals.
_ERRORS = (
    HttpError,
    HttpLimitError,
    OSError,
    http.client.HTTPException,
    ValueError,
    zlib.error,
)

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Redirect codes after which a request with a body is repeated as GET (RFC 9110, 15.4).
_BECOMES_GET = frozenset({301, 302, 303})
#: Headers that authenticate the client, in lower case.
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-auth-token"})
#: Headers that only this client writes; a request must not set them.
_OWN_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "expect"}
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_METHOD = re.compile(r"[A-Z]{1,20}\Z")
_URL = re.compile(r"[\x21-\x5b\x5d-\x7e]{1,8192}\Z")
_FINGERPRINT_CHARS = 64


@dataclass(frozen=True)
class HttpLimits:
    """Limits of one request, including all its redirects."""

    #: Seconds from the call to the last byte.
    seconds: float = 30.0
    #: Seconds to connect to one address.
    connect_seconds: float = 10.0
    #: Maximum size of a body after decompression, in bytes.
    max_bytes: int = 16 * 1024 * 1024
    #: Maximum number of redirects to follow; with 0 the redirect itself is returned.
    redirects: int = 5


@dataclass(frozen=True)
class HttpTrust:
    """How a server's certificate is verified; by default with the system's authorities."""

    #: PEM file with the only authorities to trust.
    ca_file: str = ""
    #: SHA-256 of the server's certificate, hex, colons allowed. If set, nothing else is checked:
    #: neither authority nor name nor expiry date.
    fingerprint: str = ""


@dataclass(frozen=True)
class HttpRequest:
    """A request with its headers, credentials and body."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Headers for the first host only; they are dropped when a redirect leads to another host.
    credentials: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class HttpResponse:
    """A server's response. Errors of the server (4xx, 5xx) are responses too."""

    #: URL of the response, after redirects.
    url: str
    status: int
    headers: Tuple[Tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Return the first header called *name* (in any case), or ""."""
        return _header(self.headers, name)


@dataclass(frozen=True)
class SavedFile:
    """A body that was written to a file."""

    url: str
    path: Path
    size: int
    #: SHA-256 of the content, hex.
    sha256: str


class _Answer(NamedTuple):
    url: str
    status: int
    headers: Tuple[Tuple[str, str], ...]
    response: http.client.HTTPResponse


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class _FileError(Exception):
    """Carries an error of the local disk past the handler of network errors."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class HttpClient:
    """Makes requests for one user of outgoing HTTP.

    Args:
        rules: which addresses may be reached.
        limits: limits of each request.
        trust: verification of certificates for https.
        proxy: "http://host:port" of a proxy. The proxy resolves names and connects, so *rules* can
            only check the proxy's address and servers given as literal addresses.
    """

    def __init__(
        self,
        rules: AddressRules,
        limits: Optional[HttpLimits] = None,
        trust: Optional[HttpTrust] = None,
        proxy: str = "",
    ) -> None:
        self._rules = rules
        self._limits = limits or HttpLimits()
        self._trust = trust or HttpTrust()
        self._proxy = _origin(_checked_url(proxy)) if proxy else None
        if self._proxy is not None and self._proxy.scheme != "http":
            raise ConfigError(f"the URL of the proxy {proxy!r} must begin with http://")

    def send(self, request: HttpRequest) -> HttpResponse:
        """Make a request and return the whole response.

        Raises:
            UsageError: the request is invalid.
            NotAllowedError: an address or a redirect is refused.
            HttpLimitError: it takes too long, is too large, or has too many redirects.
            UnreachableError: the server cannot be reached.
            HttpError: the response is not valid HTTP, or the certificate is not trusted.
        """

        def whole(answer: _Answer) -> HttpResponse:
            body = b"".join(body_of(answer.response, self._limits.max_bytes))
            return HttpResponse(answer.url, answer.status, answer.headers, body)

        return self._follow(request, whole)

    def save(self, request: HttpRequest, path: Union[str, Path], sha256: str = "") -> SavedFile:
        """Make a request and save the body to a file that appears once it is complete and durable.

        Args:
            request: usually a GET.
            path: the file; an existing one is replaced.
            sha256: expected SHA-256 of the content, hex; "" if it is not known.

        Raises:
            HttpError: as `send`, or the status is not 200, or the content differs from *sha256*.
            OSError: the file cannot be written.
        """

        def saved(answer: _Answer) -> SavedFile:
            if answer.status != 200:
                raise HttpError(f"the server answered {answer.status}")
            pieces = body_of(answer.response, self._limits.max_bytes)
            return _save(answer.url, pieces, Path(path), sha256)

        try:
            return self._follow(request, saved)
        except _FileError as error:
            raise error.cause from None

    def _follow(self, request: HttpRequest, take: Callable[[_Answer], T]) -> T:
        """Make *request*, follow its redirects, and read the final response with *take*."""
        _check_request(request)
        deadline = Deadline(self._limits.seconds)
        for hop in range(self._limits.redirects + 1):
            url = _checked_url(request.url)
            try:
                with self._exchange(request, url, deadline) as answer:
                    place = _header(answer.headers, "Location")
                    follows = answer.status in _REDIRECTS and place and self._limits.redirects
                    if not follows:
                        return take(answer)
            except _ERRORS as error:
                raise _translated(request.url, error, deadline) from error
            if hop == self._limits.redirects:
                break
            request = _redirected(request, answer.status, place)
        raise HttpLimitError(f"{request.url}: more than {self._limits.redirects} redirects")

    @contextlib.contextmanager
    def _exchange(
        self, request: HttpRequest, url: SplitResult, deadline: Deadline
    ) -> Iterator[_Answer]:
        """Send one request; close the connection at the end of the block."""
        origin = _origin(url)
        sock = self._connected(origin, deadline)
        with contextlib.closing(sock):
            plain_proxy = self._proxy is not None and origin.scheme == "http"
            send(sock, _written(request, url, whole=plain_proxy), deadline)
            response = answer_of(sock, request.method, deadline, self._limits.max_bytes)
            headers = tuple(response.getheaders())
            yield _Answer(request.url, response.status, headers, response)

    def _connected(self, origin: _Origin, deadline: Deadline) -> socket.socket:
        to = self._proxy or origin
        if self._proxy is not None:
            self._check_literal(origin)
        targets = resolve(to.host, to.port, self._rules, deadline.left())
        sock = connect(targets, deadline, self._limits.connect_seconds)
        if origin.scheme == "http":
            return sock
        if self._proxy is not None:
            _tunnel(sock, origin, deadline)
        name = origin.host.partition("%")[0]
        secured = secure(sock, _context(self._trust), name, deadline)
        try:
            _check_fingerprint(secured, self._trust)
        except BaseException:
            secured.close()
            raise
        return secured

    def _check_literal(self, origin: _Origin) -> None:
        refuse_ambiguous(origin.host)
        with contextlib.suppress(ValueError):
            self._rules.check(origin.host, origin.port)


# -- requests ----------------------------------------------------------------------------------


def _checked_url(text: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        UsageError: *text* is not a URL that this client accepts.
    """
    if not _URL.match(text):
        raise UsageError(f"{text[:200]!r} is not a URL: it is too long or badly quoted")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise UsageError(f"{text[:200]!r} is not a URL: {error}") from None
    if url.scheme not in _PORTS:
        raise NotAllowedError(f"{text[:200]!r} is neither http:// nor https://")
    if url.username is not None or url.password is not None:
        raise UsageError("a URL must not contain a user or password; pass credentials")
    if not url.hostname or port == 0:
        raise UsageError(f"{text[:200]!r} has no host")
    return url


def _origin(url: SplitResult) -> _Origin:
    host = (url.hostname or "").replace("%25", "%")
    return _Origin(url.scheme, host, url.port or _PORTS[url.scheme])


def _check_request(request: HttpRequest) -> None:
    if not _METHOD.match(request.method):
        raise UsageError(f"{request.method[:40]!r} is not an HTTP method")
    for name, value in [*request.headers.items(), *request.credentials.items()]:
        if not _NAME.match(name) or not _VALUE.match(value):
            raise UsageError(f"the header {name[:100]!r} has characters not allowed")
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"the header {name} is set by the client itself")


def _written(request: HttpRequest, url: SplitResult, *, whole: bool) -> bytes:
    """Return the bytes of *request*; *whole* writes the complete URL, as a proxy needs it."""
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    # The zone of a link-local address (RFC 6874) means nothing to the server.
    netloc = re.sub(r"%25[^\]]*\]", "]", url.netloc)
    line = f"http://{netloc}{target}" if whole else target
    given = {**request.headers, **request.credentials}
    headers = {"Host": netloc, "Accept-Encoding": "identity", "Connection": "close", **given}
    for name, value in (("User-Agent", "catena"), ("Accept", "*/*")):
        if not _header(tuple(given.items()), name):
            headers[name] = value
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {line} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.body


def _redirected(request: HttpRequest, status: int, place: str) -> HttpRequest:
    """Return the request that a redirect leads to.

    Raises:
        NotAllowedError: it would send credentials unencrypted, or a body to another host.
    """
    url = urljoin(request.url, place).partition("#")[0]
    old, new = _origin(_checked_url(request.url)), _origin(_checked_url(url))
    secret = bool(request.credentials) or any(
        n.lower() in _SECRET_HEADERS for n in request.headers
    )
    if old.scheme == "https" and new.scheme == "http" and secret:
        raise NotAllowedError(f"{request.url} redirects to {url}, without encryption")
    headers, credentials = dict(request.headers), request.credentials
    if old != new:
        headers = {n: v for n, v in headers.items() if n.lower() not in _SECRET_HEADERS}
        credentials = {}
    method, body = request.method, request.body
    if status in _BECOMES_GET and method not in ("GET", "HEAD"):
        method, body = "GET", b""
        headers = {n: v for n, v in headers.items() if not n.lower().startswith("content-")}
    if body and old != new:
        raise NotAllowedError(f"{request.url} redirects a request with a body to {url}")
    return HttpRequest(url, method, headers, credentials, body)


# -- connections -------------------------------------------------------------------------------


def _tunnel(sock: socket.socket, origin: _Origin, deadline: Deadline) -> None:
    """Open a tunnel to *origin* through a proxy; close the socket if the proxy refuses."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    place = f"{host}:{origin.port}"
    try:
        ask = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n"
        send(sock, ask.encode("ascii"), deadline)
        # Read byte by byte, because the bytes after the response head belong to TLS.
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            sock.settimeout(deadline.left())
            byte = sock.recv(1)
            if not byte or len(head) > 16384:
                raise HttpError("the proxy's answer is no HTTP")
            head += byte
        if not re.match(rb"HTTP/1\.[01] 2\d\d", head):
            raise HttpError(f"the proxy refuses {place}: {head[:80]!r}")
    except BaseException:
        sock.close()
        raise


def _context(trust: HttpTrust) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=trust.ca_file or None)
    except OSError as error:
        raise ConfigError(f"{trust.ca_file}: the authorities can't be read: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust.fingerprint:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _check_fingerprint(sock: ssl.SSLSocket, trust: HttpTrust) -> None:
    """Compare the server's certificate with the pinned fingerprint before anything is sent."""
    if not trust.fingerprint:
        return
    wanted = trust.fingerprint.replace(":", "").lower()
    if len(wanted) != _FINGERPRINT_CHARS:
        raise ConfigError("the fingerprint of a certificate is a SHA-256, 64 digits")
    found = hashlib.sha256(sock.getpeercert(binary_form=True) or b"").hexdigest()
    if not same_digest(found.encode(), wanted.encode()):
        raise HttpError(f"another certificate, SHA-256 {found}")


def _translated(url: str, error: Exception, deadline: Deadline) -> Exception:
    """Return *error* with the URL in its text; errors of a library become those of this module."""
    if isinstance(error, (socket.timeout, TimeoutError)):
        try:
            deadline.left()
        except HttpLimitError as late:
            # The deadline of the whole request has passed, which is the real cause.
            error = late
    if isinstance(error, (HttpError, HttpLimitError)):
        return type(error)(f"{url}: {error}")
    if isinstance(error, ssl.SSLError):
        return HttpError(f"{url}: {error}")
    if isinstance(error, OSError) and not isinstance(error, http.client.HTTPException):
        return UnreachableError(f"{url}: {error}")
    return HttpError(f"{url}: the answer is no valid HTTP: {type(error).__name__}: {error}")


# -- answers -----------------------------------------------------------------------------------


def _header(headers: Tuple[Tuple[str, str], ...], name: str) -> str:
    return next((value for key, value in headers if key.lower() == name.lower()), "")


def _save(url: str, pieces: Iterator[bytes], path: Path, sha256: str) -> SavedFile:
    """Write *pieces* to a temporary file, then rename it to *path*; clean up after an error."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    digest, size = hashlib.sha256(), 0
    try:
        with _written_to(partial) as write:
            for piece in pieces:
                write(piece)
                digest.update(piece)
                size += len(piece)
        found = digest.hexdigest()
        if sha256 and not same_digest(found.encode(), sha256.lower().encode()):
            raise HttpError(f"the content has SHA-256 {found}, not {sha256}")
        with _disk():
            rename_durable(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return SavedFile(url, path, size, found)


@contextlib.contextmanager
def _written_to(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Create a file and yield a function that writes to it; fsync the file after the block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _disk():
        handle = os.open(path, flags, 0o600)

    def write(piece: bytes) -> None:
        with _disk():
            write_all(handle, piece)

    try:
        yield write
        with _disk():
            os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _FileError(error) from error
