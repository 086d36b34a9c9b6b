"""Reports of large files: few, in time, and none from a copy of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from catena.core.context import FileEntry
from catena.fileserver import transfers
from catena.fileserver.transfers import Transfers
from catena.transport.messages import ChunkReply

SIZE = 100 * 1024 * 1024
PIECE = 1024 * 1024


def reports(seconds: float, **more: Any) -> list[int]:
    """Return how much had come at each report, with a piece every *seconds*."""
    now, found = [0.0], []

    def pieces() -> Iterator[ChunkReply]:
        for at in range(0, SIZE, PIECE):
            now[0] += seconds
            yield ChunkReply("x", at, b"x" * PIECE)

    def report(kind: str, data: dict[str, Any]) -> None:
        assert (kind, data["path"], data["total"]) == ("transfer", "a/b.iso", SIZE)
        found.append(data["done"] // PIECE)

    client = Transfers(report, lambda: now[0])
    for name, value in more.items():
        setattr(client, name, value)
    came = list(client.watched(FileEntry("a/b.iso", "x", SIZE, 0o600), pieces()))
    assert len(came) == SIZE // PIECE
    return found


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.001, []), (0.125, [16, 32, 48, 64, 80, 96]), (10.0, list(range(10, 101, 10)))],
)
def test_reports_are_two_seconds_and_a_tenth_apart(seconds: float, expected: list[int]) -> None:
    assert reports(seconds) == expected


def test_job_has_a_bounded_number_of_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "REPORTS_LIMIT", 3)
    assert reports(10.0) == [10, 20, 30]


def test_copy_of_the_process_reports_nothing() -> None:
    assert reports(10.0, _owner=os.getpid() + 1) == []
