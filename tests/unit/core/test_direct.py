"""Large files written past the cache: whole whatever the file system, and no fault is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core import direct

#: No whole number of pages, and more than is written at a time.
CONTENT = os.urandom(1024) * 2500 + b"end"


@pytest.fixture
def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(direct, "LARGE_BYTES", 1)
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def fill(handle: int, piece: int = 700_001) -> None:
    with direct.writing(handle, len(CONTENT)) as write:
        for at in range(0, len(CONTENT), piece):
            write(CONTENT[at : at + piece])


def content(handle: int) -> bytes:
    return os.pread(handle, 2 * len(CONTENT), 0)


def is_direct(handle: int) -> bool:
    return bool(fcntl.fcntl(handle, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0))


@pytest.mark.parametrize("piece", [4096, 700_001, direct.WRITE_BYTES, len(CONTENT)])
def test_direct_write_produces_the_given_content(handle: int, piece: int) -> None:
    fill(handle, piece)
    assert content(handle) == CONTENT and not is_direct(handle)


def test_write_uses_the_page_cache_without_o_direct(
    handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    fill(handle)
    assert content(handle) == CONTENT


def test_write_uses_the_page_cache_when_the_file_system_refuses_o_direct(
    handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL:
            raise OSError(errno.EINVAL, "no")
        return 0

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    fill(handle)
    assert content(handle) == CONTENT


@pytest.mark.parametrize("taken", [0, 4096, 123])
def test_write_continues_in_the_page_cache_after_a_refused_direct_write(
    handle: int, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    usual, calls = os.write, []

    def refuse(handle: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 1 and taken:
            # As a disk that took less than it was given; the next place is no whole page.
            os.lseek(handle, taken, os.SEEK_CUR)
            return os.pwrite(handle, data[:taken], 0)
        if len(calls) <= 2:
            raise OSError(errno.EINVAL, "no")
        return usual(handle, data)

    monkeypatch.setattr(direct, "_past_cache", lambda handle, wanted: True)
    monkeypatch.setattr(os, "write", refuse)
    if not taken:
        calls.append(0)
    fill(handle)
    assert content(handle) == CONTENT


@pytest.mark.parametrize("piece", [4096, len(CONTENT)])
def test_full_disk_is_reported_during_a_direct_write(
    handle: int, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    def full(handle: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        fill(handle, piece)
    assert not is_direct(handle)


def test_error_during_a_direct_write_leaves_no_thread(handle: int) -> None:
    with pytest.raises(KeyError), direct.writing(handle, len(CONTENT)) as write:
        write(CONTENT)
        raise KeyError
    assert not [one for one in threading.enumerate() if one.name == "catena-direct"]
    assert not is_direct(handle)


def test_small_file_is_written_through_the_page_cache(
    handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "LARGE_BYTES", len(CONTENT) + 1)
    monkeypatch.setattr(direct, "_past_cache", lambda *given: pytest.fail("past the cache"))
    fill(handle)
    assert content(handle) == CONTENT
