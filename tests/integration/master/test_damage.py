"""Damaged files of a master are reported and never served."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.core.checkup import Finding, Level
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError, InvalidStateError
from catena.master import main
from catena.master.process import checkup
from catena.master.store import birth, opening, soundness, upkeep, wal
from catena.master.store.database import Store, StoreCorruptError
from catena.master.store.tables import FACTS
from catena.transport import keys
from tests.integration.master.bench import a_master
from tests.support.databases import ON_POSTGRES

Damage = Callable[[bytes], bytes]
PAGE = 4096


def flipped(place: float) -> Damage:
    def flip(data: bytes) -> bytes:
        index = int((len(data) - 1) * place)
        return data[:index] + bytes([data[index] ^ 0x10]) + data[index + 1 :]

    return flip


DAMAGES: dict[str, Damage] = {
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "header zeroed": lambda data: bytes(100) + data[100:],
    "first page zeroed": lambda data: bytes(PAGE) + data[PAGE:],
    "all but the first page zeroed": lambda data: data[:PAGE] + bytes(max(0, len(data) - PAGE)),
    "cut to half": lambda data: data[: len(data) // 2],
    "cut by a byte": lambda data: data[:-1],
    "cut by a page": lambda data: data[:-PAGE],
    "bit of the magic": flipped(0.0),
    "garbage": lambda data: b"\xa5" * len(data),
    "text": lambda data: b"no database at all",
}


@pytest.fixture
def settings(tmp_path: Path) -> MasterSettings:
    state, pki = tmp_path / "state", tmp_path / "pki"
    settings = MasterSettings(state_dir=str(state), pki_dir=str(pki), run_dir=str(tmp_path))
    keys.load_or_create(pki)
    begin(settings)
    return settings


def database(settings: MasterSettings) -> Path:
    return Path(settings.state_dir) / "master.db"


def without_free_pages(settings: MasterSettings) -> Path:
    """Return the database without the pages of dropped tables, which nobody reads."""
    path = database(settings)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("VACUUM")
    return path


def begin(settings: MasterSettings, *, new_store: bool = False) -> None:
    """Do to the store what a start of the master does."""
    note = opening.check(settings, new_store)

    async def opened() -> None:
        store = Store(f"sqlite:///{database(settings)}")
        await store.open()
        for number in range(50):
            await store.write(partial(_put, name=f"fact {number}"))
        await store.close()

    asyncio.run(opened())
    opening.claim(settings, note, new_store)


def _put(conn: sa.Connection, name: str) -> None:
    conn.execute(sa.delete(FACTS).where(FACTS.c.name == name))
    conn.execute(sa.insert(FACTS).values(name=name, value="x" * 500))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_database_is_refused_by_start_check_and_doctor(
    settings: MasterSettings, damage: str
) -> None:
    path = database(settings)
    damaged = DAMAGES[damage](path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(CatenaError, match=r"restore BACKUP"):
        opening.check(settings, False)
    assert upkeep.faults(f"sqlite:///{path}")
    assert path.read_bytes() == damaged


def test_zeroed_inner_page_is_refused_at_the_start(settings: MasterSettings) -> None:
    path = without_free_pages(settings)
    data = path.read_bytes()
    for page in range(1, len(data) // PAGE):
        if data[page * PAGE : page * PAGE + PAGE].strip(b"\0"):
            path.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])
            with pytest.raises(StoreCorruptError, match="is not served"):
                opening.check(settings, False)


def test_flipped_bit_in_a_page_header_is_refused_at_the_start(settings: MasterSettings) -> None:
    """The first bytes of a page say what kind it is, and where its cells are."""
    path = without_free_pages(settings)
    data = path.read_bytes()
    for page in range(1, len(data) // PAGE):
        if data[page * PAGE] in (2, 5, 10, 13):
            at = page * PAGE
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
            with pytest.raises(StoreCorruptError, match="is not served"):
                opening.check(settings, False)


def test_database_without_a_table_or_a_store_is_refused(settings: MasterSettings) -> None:
    path = database(settings)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE delivery")
    with pytest.raises(StoreCorruptError, match="table delivery is missing"):
        opening.check(settings, False)
    path.unlink()
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE other (x)")
    with pytest.raises(StoreCorruptError, match="it is not the store of a catena master"):
        opening.check(settings, False)


# -- the log of writes ----------------------------------------------------------------------------


@pytest.fixture
def crashed(settings: MasterSettings, tmp_path: Path) -> MasterSettings:
    """A store whose master was killed: its last transactions are only in the log."""
    path = database(settings)
    conn = sqlite3.connect(path, isolation_level=None)
    for number in range(20):
        conn.execute("INSERT INTO fact VALUES (?, ?)", (f"late {number}", "y" * 3000))
    kept = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")}
    conn.close()
    for suffix, data in kept.items():
        path.with_name(path.name + suffix).write_bytes(data)
    return settings


def log_of(settings: MasterSettings) -> Path:
    return database(settings).with_name("master.db-wal")


def late_rows(settings: MasterSettings) -> int:
    with closing(sqlite3.connect(database(settings))) as conn:
        query = "SELECT count(*) FROM fact WHERE name LIKE 'late%'"
        return int(conn.execute(query).fetchone()[0])


def test_sound_log_is_replayed_at_the_start(crashed: MasterSettings) -> None:
    with log_of(crashed).open("ab") as file:
        file.write(bytes(3 * PAGE))
    opening.check(crashed, False)
    assert late_rows(crashed) == 20


@pytest.mark.parametrize("place", [0.0, 0.0005, 0.1, 0.3, 0.5, 0.8])
def test_damaged_log_is_refused_and_left_as_it_is(crashed: MasterSettings, place: float) -> None:
    path = log_of(crashed)
    damaged = flipped(place)(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(StoreCorruptError, match=r"master\.db-wal: "):
        opening.check(crashed, False)
    assert path.read_bytes() == damaged


def test_zeroed_frame_in_the_middle_of_the_log_is_refused(crashed: MasterSettings) -> None:
    path = log_of(crashed)
    data = path.read_bytes()
    start = 32 + 5 * (24 + PAGE)
    path.write_bytes(data[:start] + bytes(24 + PAGE) + data[start + 24 + PAGE :])
    with pytest.raises(StoreCorruptError, match="frame 6 is damaged"):
        opening.check(crashed, False)


@pytest.mark.parametrize("place", [0.999, 0.97])
def test_torn_last_transaction_is_not_damage(crashed: MasterSettings, place: float) -> None:
    """A power failure leaves it so; nobody was told that it was stored."""
    path = log_of(crashed)
    path.write_bytes(flipped(place)(path.read_bytes()))
    opening.check(crashed, False)
    assert late_rows(crashed) == 19


def test_frames_of_an_earlier_generation_of_the_log_are_not_damage(
    crashed: MasterSettings,
) -> None:
    path = log_of(crashed)
    data = path.read_bytes()
    frame = 24 + PAGE
    stale = bytearray(data[32 + 2 * frame : 32 + 9 * frame])
    for start in range(0, len(stale), frame):
        stale[start + 8 : start + 12] = b"\x01\x02\x03\x04"
    path.write_bytes(data + bytes(stale))
    assert wal.faults(database(crashed)) == []


def test_torn_transaction_over_an_earlier_generation_of_the_log_is_not_damage(
    tmp_path: Path,
) -> None:
    """The system writes the pages of a file in any order, and a power failure ends that."""
    path, frame = tmp_path / "some.db", 24 + PAGE
    conn = sqlite3.connect(path, isolation_level=None)
    log = path.with_name("some.db-wal")
    conn.execute("PRAGMA journal_mode=WAL")
    conn.execute("CREATE TABLE fact (value TEXT)")
    for _ in range(20):
        conn.execute("INSERT INTO fact VALUES (?)", ("a commit of few pages",))
    before = log.read_bytes()
    conn.execute("PRAGMA wal_checkpoint(RESTART)")
    conn.execute("INSERT INTO fact VALUES (?)", ("begins the next round",))
    conn.execute("INSERT INTO fact VALUES (?)", ("x" * 8 * PAGE,))
    now = log.read_bytes()
    torn = [
        start
        for start in range(32, len(now) - 2 * frame, frame)
        if now[start + 8 : start + 16] == now[start + frame + 8 : start + frame + 16] == now[16:24]
        and now[start + 4 : start + 8] == bytes(4) != before[start + 4 : start + 8]
    ]
    assert torn
    for start in torn:
        log.write_bytes(now[:start] + before[start : start + frame] + now[start + frame :])
        assert wal.faults(path) == []
    conn.close()


@pytest.mark.parametrize("damage", ["empty", "zeroed", "garbage", "cut to half"])
def test_damaged_index_of_the_log_is_rebuilt(crashed: MasterSettings, damage: str) -> None:
    index = database(crashed).with_name("master.db-shm")
    index.write_bytes(DAMAGES[damage](os.urandom(32768)))
    opening.check(crashed, False)
    assert late_rows(crashed) == 20


# -- a store that is not the one of the keys ------------------------------------------------------


def test_missing_store_with_used_keys_is_refused_without_new_store(
    settings: MasterSettings,
) -> None:
    database(settings).unlink()
    with pytest.raises(birth.StoreMismatchError, match="--new-store"):
        begin(settings)
    begin(settings, new_store=True)
    begin(settings)


def test_first_start_killed_before_the_tables_existed_is_repeated(tmp_path: Path) -> None:
    settings = MasterSettings(state_dir=str(tmp_path), pki_dir=str(tmp_path / "pki"))
    keys.load_or_create(tmp_path / "pki")
    with closing(sqlite3.connect(database(settings))) as conn:
        conn.execute("PRAGMA journal_mode=WAL")
    assert database(settings).stat().st_size == PAGE
    begin(settings)
    begin(settings)
    os.truncate(database(settings), PAGE)
    with pytest.raises(StoreCorruptError, match="is not served"):
        opening.check(settings, False)


def test_store_with_commits_only_in_a_damaged_log_is_not_recreated(tmp_path: Path) -> None:
    settings = MasterSettings(state_dir=str(tmp_path), pki_dir=str(tmp_path / "pki"))
    path = database(settings)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode=WAL")
    for name in ("alembic_version", "fact"):
        conn.execute(f"CREATE TABLE {name} (x)")
    log = log_of(settings)
    kept = path.read_bytes(), log.read_bytes()
    conn.close()
    path.write_bytes(kept[0])
    log.write_bytes(flipped(0.1)(kept[1]))
    with pytest.raises(StoreCorruptError, match=r"master\.db-wal: "):
        opening.check(settings, False)


def test_first_start_with_a_new_key_needs_no_confirmation(tmp_path: Path) -> None:
    keys.load_or_create(tmp_path)
    birth.refuse_empty("x", tmp_path, tmp_path / "state")
    old = (tmp_path / "curve.key").stat().st_mtime + birth.KEY_SECONDS + 60
    with pytest.raises(birth.StoreMismatchError, match="is empty"):
        birth.refuse_empty("x", tmp_path, tmp_path / "state", now=old)


def test_doctor_reports_a_lost_store_as_the_start_does(settings: MasterSettings) -> None:
    database(settings).unlink()
    with pytest.raises(birth.StoreMismatchError) as refused:
        opening.check(settings, False)
    assert [one.what for one in store_findings(settings)] == [str(refused.value)]


def test_doctor_reports_a_first_start_as_a_note(tmp_path: Path) -> None:
    settings = MasterSettings(state_dir=str(tmp_path / "none"), pki_dir=str(tmp_path / "pki"))
    (found,) = store_findings(settings)
    assert (found.level, "the first start creates it" in found.what) == (Level.note, True)


def store_findings(settings: MasterSettings) -> list[Finding]:
    return [one for one in checkup.check(settings, checkup.Checks((), ())) if one.part == "store"]


def test_lost_store_is_recognised_by_the_folders_beside_it(settings: MasterSettings) -> None:
    """The key is young and `store.json` is lost too."""
    (Path(settings.state_dir) / "blobs").mkdir()
    (Path(settings.pki_dir) / birth.FILE).unlink()
    database(settings).unlink()
    with pytest.raises(birth.StoreMismatchError, match="--new-store"):
        begin(settings)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", ".lock"])
@pytest.mark.parametrize(("make", "kind"), [(os.mkdir, "a directory"), (os.mkfifo, "a pipe")])
async def test_special_file_in_the_place_of_the_database_is_refused(
    settings: MasterSettings, suffix: str, make: Callable[[Path], None], kind: str
) -> None:
    path = database(settings).with_name(f"master.db{suffix}")
    path.unlink(missing_ok=True)
    make(path)
    told = f"{path} is {kind}, not a file: move it away"
    with pytest.raises(InvalidStateError, match=re.escape(told)):
        await main.serve(settings, "/nowhere", False)
    assert [one.what.startswith(told) for one in store_findings(settings)] == [True]


def test_store_of_other_keys_is_refused(settings: MasterSettings, tmp_path: Path) -> None:
    other = MasterSettings(state_dir=str(tmp_path / "b"), pki_dir=str(tmp_path / "b-pki"))
    begin(other)
    database(settings).write_bytes(database(other).read_bytes())
    with pytest.raises(birth.StoreMismatchError, match="is not the one"):
        begin(settings)
    begin(settings, new_store=True)
    begin(settings)


@pytest.mark.parametrize("damage", sorted({*DAMAGES} - {"all but the first page zeroed"}))
def test_damaged_store_json_is_reported_and_rewritten(
    settings: MasterSettings, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    path = Path(settings.pki_dir) / birth.FILE
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    begin(settings)
    assert "store.json is damaged" in caplog.text
    assert path.read_bytes() == whole
    path.write_bytes(DAMAGES[damage](whole))
    database(settings).unlink()
    with pytest.raises(birth.StoreMismatchError):
        begin(settings)


def test_flipped_bit_in_store_json_is_detected(settings: MasterSettings) -> None:
    path = Path(settings.pki_dir) / birth.FILE
    text = path.read_bytes()
    store = json.loads(text)["store"]
    path.write_bytes(text.replace(store[:1].encode(), b"%x" % (int(store[0], 16) ^ 1), 1))
    assert birth.read(Path(settings.pki_dir)).damage


# -- the key --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["curve.key", "curve.pub"])
@pytest.mark.parametrize("damage", ["empty", "zeroed", "cut by a byte", "garbage", "flipped"])
def test_damaged_key_stops_the_start(tmp_path: Path, name: str, damage: str) -> None:
    pair = keys.load_or_create(tmp_path)
    keys.check_pair(tmp_path, pair)
    path = tmp_path / name
    data = path.read_bytes().strip()
    other = b"a" if data[:1] != b"a" else b"b"
    path.write_bytes(other + data[1:] if damage == "flipped" else DAMAGES[damage](data))
    with pytest.raises(keys.UnsafeKeyError, match="curve"):
        keys.check_pair(tmp_path, keys.load_or_create(tmp_path))


# -- damage that shows while the master runs ------------------------------------------------------


@pytest.mark.skipif(ON_POSTGRES, reason="it damages a file of SQLite")
async def test_damage_found_while_serving_stops_new_orders_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def found(database: Path) -> list[str]:
        return [f"{database}: row 7 missing from index"]

    monkeypatch.setattr(soundness, "check_in_background", found)
    monkeypatch.setattr(soundness, "QUICK_BYTES", 0)

    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        path = Path(master.settings.state_dir) / "master.db"

        await master._check_database()
        with pytest.raises(StoreCorruptError, match=r"new jobs are refused: .*row 7 missing"):
            await master.submit()
        # What runs is stored all the same.
        await web1.answer(done.jid, True)
        assert await master.states(done.jid) == {"web1": "done"}
        (event,) = await master.events("catena/store/damaged")
        assert event.data["what"].startswith(str(path))
    assert "the store is damaged, new jobs are refused" in caplog.text


async def test_check_in_the_background_reads_every_page(settings: MasterSettings) -> None:
    path = database(settings)
    assert await soundness.check_in_background(path) == []
    data = path.read_bytes()
    path.write_bytes(data[:PAGE] + b"\xa5" * PAGE + data[2 * PAGE :])
    assert await soundness.check_in_background(path)


def test_large_database_gets_a_structure_check_before_the_start(
    settings: MasterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soundness, "QUICK_BYTES", PAGE)
    path = database(settings)
    opening.check(settings, False)
    path.write_bytes(path.read_bytes()[:-PAGE])
    with pytest.raises(StoreCorruptError, match="according to its header"):
        opening.check(settings, False)


async def test_start_of_the_daemon_checks_its_store(settings: MasterSettings) -> None:
    database(settings).write_bytes(b"")
    with pytest.raises(birth.StoreMismatchError, match="is empty"):
        await main.serve(settings, "/nowhere", False)
