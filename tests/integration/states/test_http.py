"""http.* with a server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.states import http


class Server(ThreadingHTTPServer):
    """Answers 503 to the first requests for /slow, then as to the others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures = 0
        self.paths: list[str] = []

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        slow = self.path == "/slow" and self.server.failures > 0
        self.server.failures -= slow
        self.send_response(503 if slow else 404 if self.path == "/none" else 200)
        self.end_headers()
        self.wfile.write(b"ready: yes\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    ("arguments", "result", "comment"),
    [
        ({"match": "ready"}, True, 'Match text "ready" was found.'),
        ({"match": "r.*y: y", "match_type": "pcre"}, True, 'Match pattern "r.*y: y" was found.'),
        ({"match": "x", "status": 200}, False,
         'Match text "x" was not found. Status 200 was found.'),
        ({"status": [201, 200], "status_type": "list"}, True, "Status 200 was found."),
        ({"status": "20.", "status_type": "pcre"}, True, 'Status pattern "20." was found.'),
        ({"status": [201], "status_type": "list"}, False, "Statuses [201] were not found."),
        ({}, False, "Either match text (match) or a status code (status) is required."),
    ],
)  # fmt: skip
def test_reply_is_checked(
    context: Context, server: Server, arguments: dict[str, Any], result: bool, comment: str
) -> None:
    found: StateResult = http.query(context, server.address("/"), **arguments)
    assert (found.result, found.comment, found.changes) == (result, comment, {})


def test_error_status_can_be_expected(context: Context, server: Server) -> None:
    address = server.address("/none")
    assert http.query(context, address, status=404).result is True
    found = http.query(context, address, status=200)
    assert found.comment.startswith("Status 200 was not found. The request failed: HTTP 404")


def test_nothing_is_sent_in_test_mode(context: Context, server: Server) -> None:
    dry = context.with_(test=True)
    address = server.address("/").replace("//", "//u:s3cret@")
    for found in (
        http.query(dry, address, status=200),
        http.wait_for_successful_query(dry, address, status=200),
    ):
        assert found.result is None
        assert found.comment.endswith("would be sent. (TEST MODE)")
        assert "s3cret" not in found.comment
    assert server.paths == []


def test_request_is_repeated_until_it_succeeds(context: Context, server: Server) -> None:
    server.failures = 2
    found = http.wait_for_successful_query(
        context, server.address("/slow"), wait_for=60, request_interval=0.01, status=200
    )
    assert (found.result, found.comment) == (True, "Status 200 was found.")
    assert server.paths == ["/slow"] * 3
    server.failures = 1
    found = http.query(context, server.address("/slow"), status=200, wait_for=60)
    assert found.result is True


def test_repetition_ends_at_its_deadline(context: Context, server: Server) -> None:
    found = http.wait_for_successful_query(
        context, server.address("/none"), wait_for=0, status=200
    )
    assert found.result is False
    assert server.paths == ["/none"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"status": 200, "wait_for": "long"}, "wait_for: 'long' is not a number of seconds"),
        ({"match": "(", "match_type": "pcre"}, "is no regular expression"),
        ({"match": "x", "match_type": "regex"}, "match_type 'regex'"),
        ({"status": 200, "status_type": "list"}, "status must be a list, not int"),
        ({"status": 200, "headers_": 1}, "headers_"),
    ],
)
def test_mistake_is_named(
    context: Context, server: Server, arguments: dict[str, Any], told: str
) -> None:
    wait = {"wait_for": 0, **arguments}
    found = http.wait_for_successful_query(context, server.address("/"), **wait)
    assert found.result is False
    assert told in found.comment
    assert server.paths == []
