"""Backups, restorations and checks of the database."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catena.core import ids
from catena.core.config.master import MasterSettings
from catena.core.errors import InvalidStateError, UsageError
from catena.master.contributions import retention as retentions
from catena.master.process import retention
from catena.master.requests.once import Once
from catena.master.store import backup, lock, restored, schema, upkeep, used_numbers
from catena.master.store.chain_tables import CHAINS
from catena.master.store.database import Store
from catena.master.store.execution_tables import RUNS
from catena.master.store.tables import EVENTS
from tests.unit.master.store.job_rows import job

DAY = 24 * 3600.0
#: A running chain as schema 0004 has it.
OLD_CHAIN = """
    INSERT INTO chain (label, user, state, epoch, created, modified, dispatched, archived)
    VALUES ('first', 'root', 'running', 7, 0, 0, 1, 0)"""
NOW = 1000 * DAY


def url(path: Path) -> str:
    return f"sqlite:///{path}"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    store = Store(url(path))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def written(path: Path, work: Callable[[sa.Connection], Any]) -> Any:
    """Open the store, do *work* in a transaction and close it; return what came of it."""
    async with opened(path) as store:
        return await store.write(work)


def chain(label: str, **values: Any) -> Callable[[sa.Connection], int]:
    archived = values.pop("archived", False)

    def insert(conn: sa.Connection) -> int:
        row = {"label": label, "user": "root", "created": 0.0, "dispatched": False}
        conn.execute(sa.insert(CHAINS).values(archived=archived, **row))
        chain_id = int(conn.execute(sa.select(sa.func.max(CHAINS.c.id))).scalar_one())
        if values:
            run = {"engine": "chains", "ref": str(chain_id), "owner": "root", "status": "RUNNING"}
            conn.execute(
                sa.insert(RUNS).values(created=0.0, **run, **{"state": "failed", **values})
            )
            run_id = sa.select(sa.func.max(RUNS.c.id)).scalar_subquery()
            conn.execute(sa.update(CHAINS).where(CHAINS.c.id == chain_id).values(run=run_id))
        return chain_id

    return insert


def events(count: int, at: float, size: int = 10) -> Callable[[sa.Connection], None]:
    def insert(conn: sa.Connection) -> None:
        row = {"tag": "app/x", "data": {"text": "x" * size}, "at": at}
        conn.execute(sa.insert(EVENTS), [row] * count)

    return insert


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    path = tmp_path / "lib" / "master.db"
    await written(path, chain("first", state="running", epoch=7))
    return path


async def test_backup_of_a_store_in_use_is_complete_and_private_and_replaces_no_file(
    database: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"

    async with opened(database) as store:
        await store.write(chain("second"))
        await asyncio.to_thread(backup.back_up, database, target)
        await store.write(chain("third"))
    assert target.stat().st_mode & 0o777 == 0o600
    assert upkeep.faults(url(target)) == []
    assert upkeep.summary(url(target)).rows["chain"] == 2
    with pytest.raises(backup.BackupError, match="never replaces"):
        backup.back_up(database, target)
    assert not list(tmp_path.glob(".*.part"))


async def test_restored_store_does_not_reuse_numbers_of_the_lost_one(
    database: Path, tmp_path: Path
) -> None:
    copy, aside = tmp_path / "copy.db", tmp_path / "lib" / "old.db"
    backup.back_up(database, copy)
    lost = await written(database, chain("lost"))
    backup.restore(database, copy, aside, NOW)
    assert [line.split(":")[0] for line in restored.touched(database, NOW)] == [
        "chain 1 (first) was running"
    ]
    made = await written(database, chain("new"))
    assert made > lost + used_numbers.ID_GAP // 2
    epoch = await written(database, lambda conn: used_numbers.next_epoch(conn, 7))
    assert epoch > NOW
    assert upkeep.summary(url(aside)).rows["chain"] == 2


async def test_second_restore_of_a_backup_reuses_no_number_of_the_first(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    backup.back_up(database, copy)
    backup.restore(database, copy, tmp_path / "lib" / "old.db", NOW)
    made = await written(database, chain("new"))
    epoch = await written(database, lambda conn: used_numbers.next_epoch(conn, 7))
    jid = ids.jid_at(datetime.fromtimestamp(NOW + 5, UTC))
    await written(database, job(jid, None))

    backup.restore(database, copy, tmp_path / "lib" / "old2.db", NOW - 100)
    assert await written(database, chain("newer")) > made + used_numbers.ID_GAP // 2
    assert await written(database, lambda conn: used_numbers.next_epoch(conn, 7)) > epoch
    assert await written(database, restored.horizon) > jid


async def test_second_restore_of_a_backup_after_a_total_loss_counts_newer_epochs(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    backup.back_up(database, copy)
    epochs = []
    for number, at in enumerate((NOW, NOW + 3600)):
        lost = tmp_path / f"host{number}" / "master.db"
        backup.restore(lost, copy, tmp_path / "aside.db", at)
        epochs.append(await written(lost, lambda conn: used_numbers.next_epoch(conn, 7)))
    assert epochs[1] - epochs[0] >= 3600


@pytest.mark.parametrize("renames", range(3))
def test_interrupted_restore_can_be_repeated(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    copy = tmp_path / "copy.db"
    backup.back_up(database, copy)
    database.with_name("master.db-wal").write_bytes(b"")
    rename, left = Path.rename, [renames]

    def interrupted(self: Path, target: Path) -> Path:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            backup.restore(database, copy, tmp_path / "lib" / "first.db", NOW)
    backup.restore(database, copy, tmp_path / "lib" / "second.db", NOW)
    assert upkeep.summary(url(database)).rows["chain"] == 1
    assert not upkeep.faults(url(database))


def test_backup_of_an_older_schema_is_restored_to_the_present_one(
    database: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older.db"
    engine = sa.create_engine(url(older))
    schema.migrate(engine, "0004")
    with engine.begin() as conn:
        conn.execute(sa.text(OLD_CHAIN))
    engine.dispose()
    copy = tmp_path / "copy.db"
    backup.back_up(older, copy)
    assert upkeep.summary(url(copy)).revision == "0004"
    backup.restore(database, copy, tmp_path / "aside.db", NOW)
    assert upkeep.summary(url(database)).revision == schema.HEAD
    assert restored.touched(database, NOW)
    assert upkeep.summary(url(copy)).revision == "0004"


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_file_that_is_no_backup_is_refused_without_changes(
    database: Path, tmp_path: Path, content: bytes
) -> None:
    source = tmp_path / "wrong.db"
    source.write_bytes(content)
    before = database.read_bytes()
    with pytest.raises(backup.BackupError, match=r"wrong\.db"):
        backup.restore(database, source, tmp_path / "aside.db", NOW)
    assert database.read_bytes() == before
    assert not (tmp_path / "aside.db").exists()


async def test_damaged_page_is_found(database: Path) -> None:
    await written(database, events(500, NOW))
    data = bytearray(database.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    database.write_bytes(bytes(data))
    assert upkeep.faults(url(database))
    with pytest.raises(backup.BackupError):
        backup.back_up(database, database.with_name("copy.db"))
    assert [path.name for path in database.parent.glob("*copy*")] == []


def test_store_of_an_older_schema_is_backed_up_before_its_upgrade(database: Path) -> None:
    assert backup.keep_before_upgrade(database) is None
    with sqlite3.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0001'")
    kept = backup.keep_before_upgrade(database)
    assert kept == database.with_name("master.db.schema-0001")
    # After a downgrade, the older version has used the database before the next upgrade.
    with sqlite3.connect(database) as conn:
        conn.execute("INSERT INTO fact VALUES ('since', 'the downgrade')")
    assert backup.keep_before_upgrade(database) == kept
    assert upkeep.summary(url(kept)).revision == "0001"
    with sqlite3.connect(kept) as conn:
        assert conn.execute("SELECT value FROM fact WHERE name = 'since'").fetchone()


def test_newer_backup_is_refused(database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    backup.back_up(database, copy)
    with sqlite3.connect(copy) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(schema.SchemaError, match="9999"):
        backup.restore(database, copy, tmp_path / "aside.db", NOW)


def test_one_database_file_has_one_master(database: Path) -> None:
    with (
        lock.held(database, "a second one"),
        pytest.raises(InvalidStateError, match="restoring it is not possible"),
        lock.held(database, "restoring it"),
    ):
        pass
    with lock.held(database, "restoring it"):
        pass


def test_postgresql_is_sent_to_its_own_tools_without_its_password() -> None:
    with pytest.raises(UsageError, match="pg_dump") as caught:
        upkeep.sqlite_file("postgresql+psycopg://catena:hunter2@db/catena")
    assert "hunter2" not in str(caught.value)


async def test_age_limit_deletes_ended_jobs_and_keeps_running_ones(database: Path) -> None:
    kept = retention.limits(retentions(), replace(MasterSettings(), keep_chains_hours=24), NOW)

    async with opened(database) as store:
        await store.write(job("1" * 20, NOW - 30 * DAY))
        await store.write(job("2" * 20, None))
        await store.write(job("3" * 20, NOW - 60))
        await store.write(events(6000, NOW - 30 * DAY))
        await store.write(events(3, NOW))
        await store.write(chain("old", state="done", ended=NOW - 2 * DAY, archived=True))
        await store.write(chain("listed", state="failed", ended=NOW - 2 * DAY))
        for key, at in (("old", NOW - 2 * DAY), ("new", NOW - 60)):
            await store.write(Once("anna", key, "event.send", "", at).wrap(lambda conn: None))
        dropped = await retention.prune(store, retentions(), kept)
        left = upkeep.summary(url(database))
    wanted = {"jobs": 1, "events": 6000, "chains": 1, "sessions": 0, "requests": 1, "returns": 0}
    assert dropped == wanted
    assert left.rows["client_request"] == 1
    assert (left.rows["job"], left.rows["event"], left.rows["chain"]) == (2, 3, 2)
    assert left.rows["delivery"] == 2


async def test_size_limit_deletes_the_oldest_rows_but_no_recent_ones(database: Path) -> None:
    settings = replace(MasterSettings(), keep_store_mib=1)
    kept = retention.limits(retentions(), settings, NOW)

    async with opened(database) as store:
        await store.write(events(3000, NOW - DAY, size=1000))
        await store.write(events(10, NOW, size=1000))
        await retention.prune(store, retentions(), kept)
        assert await store.read(upkeep.used_bytes) <= retention.MIB
    assert upkeep.summary(url(database)).rows["event"] >= 10
    upkeep.vacuum(database)
    assert database.stat().st_size <= 2 * retention.MIB


def test_every_module_of_tables_belongs_to_the_schema() -> None:
    folder = Path(schema.__file__).parent
    found = {path.stem for path in (*folder.glob("*_tables.py"), *folder.glob("tables.py"))}
    assert found == {module.__name__.rpartition(".")[2] for module in schema.TABLES}


async def test_summary_and_check_see_every_table_without_other_imports(tmp_path: Path) -> None:
    await written(tmp_path / "master.db", lambda conn: None)
    code = (
        "import sys\n"
        "from catena.master.store import upkeep\n"
        "print(*upkeep.summary(sys.argv[1]).rows, *upkeep.METADATA.tables)"
    )
    argv = (sys.executable, "-I", "-c", code, url(tmp_path / "master.db"))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe)
    out, _ = await process.communicate()
    owned = [each for module in schema.TABLES for each in vars(module).values()]
    tables = {each.name for each in owned if isinstance(each, sa.Table)}
    assert sorted(out.decode().split()) == sorted([*tables, *tables])
