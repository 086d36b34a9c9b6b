"""A relay between a private network namespace and the package archive.

A formula may change the firewall, set kernel parameters and start servers, so its host has a
network of its own. apt on that host uses this relay as its HTTP proxy. The relay listens inside
the namespace, connects outside it, and only to the hosts of the package archive.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

#: Where the relay listens inside the namespace.
PORT = 3142
#: Seconds that the archive may be silent.
SILENCE = 120.0
#: Bytes that are copied at once.
PIECE = 1 << 16
#: Headers between two neighbours, which a proxy does not pass on.
_NEIGHBOURS = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "host"}
_CLONE_NEWNET = 0x40000000


def archive_hosts() -> frozenset[str]:
    """Return the names of the hosts that apt on this machine loads packages from."""
    argv = ("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    hosts = {urlsplit(line).hostname for line in done.stdout.splitlines()}
    return frozenset(host for host in hosts if host)


@contextlib.contextmanager
def relay(pid: int, hosts: frozenset[str], port: int = PORT) -> Iterator[None]:
    """Serve the network namespace of process *pid*; connect only to *hosts*."""
    server = _Relay(("127.0.0.1", port), _Exchange, bind_and_activate=False)
    server.hosts = hosts
    server.socket.close()
    server.socket = _listen(pid, port)
    thread = threading.Thread(target=server.serve_forever, name="relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(pid: int, port: int) -> socket.socket:
    """Return a socket that listens in the network namespace of *pid*.

    A socket stays in the namespace in which it was made. Only the thread that makes it enters the
    namespace.
    """
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            _enter(pid)
            made.append(socket.create_server(("127.0.0.1", port)))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make, name="relay socket")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the network of process {pid}")
    finally:
        os.close(namespace)


class _Relay(ThreadingHTTPServer):
    hosts: frozenset[str] = frozenset()
    daemon_threads = True


class _Exchange(BaseHTTPRequestHandler):
    """One connection of apt."""

    server: _Relay
    timeout = SILENCE

    def do_GET(self) -> None:
        """Load a file of an archive by HTTP."""
        url = urlsplit(self.path)
        if url.scheme != "http" or url.hostname not in self.server.hosts:
            self.send_error(403, "not a package archive of this machine")
            return
        outside = HTTPConnection(url.hostname, url.port or 80, timeout=SILENCE)
        passed = {k: v for k, v in self.headers.items() if k.lower() not in _NEIGHBOURS}
        try:
            outside.request("GET", url._replace(scheme="", netloc="").geturl(), headers=passed)
            answer = outside.getresponse()
            self.send_response(answer.status, answer.reason)
            for key, value in answer.getheaders():
                if key.lower() not in _NEIGHBOURS:
                    self.send_header(key, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read(PIECE):
                self.wfile.write(piece)
        except OSError as error:
            self.log_error("%s: %s", self.path, error)
        finally:
            outside.close()
            self.close_connection = True

    do_HEAD = do_GET  # noqa: N815  # the name that http.server calls

    def do_CONNECT(self) -> None:
        """Connect apt with an archive that speaks HTTPS."""
        host, _, port = self.path.rpartition(":")
        if host not in self.server.hosts or port != "443":
            self.send_error(403, "not a package archive of this machine")
            return
        try:
            outside = socket.create_connection((host, 443), SILENCE)
        except OSError as error:
            self.send_error(502, str(error))
            return
        with outside:
            self.send_response(200)
            self.end_headers()
            _join(self.connection, outside)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: apt reports what failed."""


def _join(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways until one side closes or both are silent."""
    while ready := select.select((one, other), (), (), SILENCE)[0]:
        for source in ready:
            piece = source.recv(PIECE)
            if not piece:
                return
            (other if source is one else one).sendall(piece)
