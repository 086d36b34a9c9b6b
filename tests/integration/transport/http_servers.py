"""Servers on loopback that answer HTTP as a test wants it, byte for byte."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from catena.transport.http import HttpClient, HttpLimits, HttpRequest
from catena.transport.http_addresses import AddressRules
from tests.support.waiting import PATIENCE_SECONDS

#: Answers one connection; `bytes` is the head of the request with what came of its body.
Answer = Callable[[socket.socket, bytes], object]


class Hostile:
    """A server with one answer for every connection.

    Args:
        answer: what it does with a connection.
        host: IP address to listen on.
        context: for TLS.
    """

    def __init__(
        self, answer: Answer, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sock = socket.create_server((host, 0), family=family)
        self.port: int = self.sock.getsockname()[1]
        self.requests: list[bytes] = []
        #: Set when the test is over: answers that never end look at it.
        self.over = threading.Event()
        self._answer, self._context = answer, context
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        """The server's root, by its address."""
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}/"

    def close(self) -> None:
        """End it, with everything that it is doing."""
        self.over.set()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        for thread in [self._accepting, *self._threads]:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(conn,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, conn: socket.socket) -> None:
        conn.settimeout(PATIENCE_SECONDS)
        # The client may leave at any moment: that is what most tests are about.
        with contextlib.suppress(OSError), conn:
            if self._context:
                conn = self._context.wrap_socket(conn, server_side=True)
            with conn:
                request = b""
                while b"\r\n\r\n" not in request:
                    piece = conn.recv(65536)
                    if not piece:
                        return
                    request += piece
                self.requests.append(request)
                self._answer(conn, request)


@contextlib.contextmanager
def hostile(
    answer: Answer | bytes, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> Iterator[Hostile]:
    """Run a server while the block runs; bytes are sent as they are."""
    if isinstance(answer, bytes):
        fixed = answer
        server = Hostile(lambda conn, _request: conn.sendall(fixed), host, context)
    else:
        server = Hostile(answer, host, context)
    try:
        yield server
    finally:
        server.close()


def page(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """Return an answer with a body of known length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(place: str, status: str = "302 Found") -> bytes:
    """Return an answer that leads elsewhere."""
    return page(b"", f"Location: {place}", status=status)


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, Path, str]:
    """Return TLS for a server at 127.0.0.1, its certificate's file and SHA-256."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hostile")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, file, made.fingerprint(hashes.SHA256()).hex()


def client(rules: AddressRules | None = None, **limits: Any) -> HttpClient:
    limits.setdefault("seconds", 10.0)
    limits.setdefault("max_bytes", 100_000)
    return HttpClient(rules or AddressRules(), HttpLimits(**limits))


def get(server: Hostile, **limits: Any) -> Any:
    return client(**limits).send(HttpRequest(server.url))
