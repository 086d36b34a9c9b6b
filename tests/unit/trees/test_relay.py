"""The relay serves the package archive to a network namespace, and nothing else."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.trees.relay import relay

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to enter a namespace")


class Archive(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Range']}".encode()
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def archive() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Archive) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def ask(port: int, method: str, target: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, target, headers={"Range": "bytes=1-"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_file_of_the_archive_is_passed_on(archive: int) -> None:
    port = free_port()
    with relay(os.getpid(), frozenset({"127.0.0.1"}), port):
        found = ask(port, "GET", f"http://127.0.0.1:{archive}/pool/a.deb?x=1")
    assert found == (206, "/pool/a.deb?x=1 bytes=1-")


def test_other_hosts_are_refused(archive: int) -> None:
    port = free_port()
    with relay(os.getpid(), frozenset({"archive.example"}), port):
        assert ask(port, "GET", f"http://127.0.0.1:{archive}/")[0] == 403
        assert ask(port, "CONNECT", "127.0.0.1:443")[0] == 403
        assert ask(port, "CONNECT", "archive.example:22")[0] == 403
