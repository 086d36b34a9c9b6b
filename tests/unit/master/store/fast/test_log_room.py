"""Preallocation of SQLite's log."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.master.store import tables
from catena.master.store.database import Store
from catena.master.store.fast import log_room

FACTS = tables.FACTS


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Store, Path]]:
    store = Store(f"sqlite:///{path / 'master.db'}")
    await store.open()
    try:
        yield store, path / "master.db-wal"
    finally:
        await store.close()


def put(name: str) -> Callable[[sa.Connection], None]:
    def insert(conn: sa.Connection) -> None:
        conn.execute(sa.insert(FACTS).values(name=name, value="x"))

    return insert


def after_a_crash(database: Path, copy: Path) -> list[str]:
    """Return the names of the facts that a process finds whose predecessor was killed now."""
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{database}{suffix}", copy)
    with closing(sqlite3.connect(copy / database.name)) as conn:
        assert conn.execute("PRAGMA quick_check").fetchone() == ("ok",)
        return [name for (name,) in conn.execute("SELECT name FROM fact ORDER BY name")]


async def test_commits_do_not_make_the_log_longer_and_outlive_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_room, "LOG_BYTES", 2_500_000)

    async with opened(tmp_path) as (store, log):
        await store.write(put("a"))
        await log_room.preallocate(store.write)
        assert log.stat().st_size == log_room.LOG_BYTES
        assert after_a_crash(tmp_path / "master.db", tmp_path / "first") == ["a"]
        await store.write(put("b"))
        assert log.stat().st_size == log_room.LOG_BYTES
        assert after_a_crash(tmp_path / "master.db", tmp_path / "second") == ["a", "b"]


async def test_log_is_preallocated_in_steps_between_other_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_room, "LOG_BYTES", 2 * log_room.STEP_BYTES)

    async with opened(tmp_path) as (store, log):
        await store.write(put("a"))
        assert await store.write(log_room.lengthen)
        assert log.stat().st_size < log_room.LOG_BYTES
        await store.write(put("b"))
        assert not await store.write(log_room.lengthen)
        assert not await store.write(log_room.lengthen)
        assert log.stat().st_size == log_room.LOG_BYTES
        assert after_a_crash(tmp_path / "master.db", tmp_path / "copy") == ["a", "b"]


async def test_full_disk_gets_the_preallocated_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def half(handle: int, data: bytes) -> None:
        os.write(handle, data[:1000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(log_room, "write_all", half)

    async with opened(tmp_path) as (store, log):
        await store.write(put("a"))
        before = log.stat().st_size
        await log_room.preallocate(store.write)
        assert log.stat().st_size == before
        await store.write(put("b"))
        assert after_a_crash(tmp_path / "master.db", tmp_path / "copy") == ["a", "b"]
    assert "can't preallocate" in caplog.text


async def test_nothing_is_preallocated_on_a_nearly_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_room, "FREE_BYTES", 2**62)

    async with opened(tmp_path) as (store, log):
        await store.write(put("a"))
        before = log.stat().st_size
        await log_room.preallocate(store.write)
        assert log.stat().st_size == before


def test_nothing_is_preallocated_without_a_log(tmp_path: Path) -> None:
    database = tmp_path / "plain.db"
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.connect() as conn:
        assert not log_room.lengthen(conn)
    engine.dispose()
    assert [path.name for path in tmp_path.iterdir() if path.name != database.name] == []
