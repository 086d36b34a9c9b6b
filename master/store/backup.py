"""Backups of an SQLite store, and the return to one.

SQLite's own online backup takes a consistent picture while the master writes.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from catena.core.errors import CatenaError, NotFoundError
from catena.core.files import private_folder, sync_folder
from catena.master.store import restored, schema, tables
from catena.master.store.upkeep import faults, opened

#: Pages that a backup copies before it lets the master write in between.
_STEP_PAGES = 2000
#: What ids and epochs jump by in a restored database. After its backup was taken the master went
#: on numbering, and minions keep journals under those numbers: none may be used again.
ID_GAP = 1_000_000
EPOCH_GAP = 1_000
#: The fact that says from where on epochs are free.
EPOCH_FLOOR = "epoch_floor"
_NUMBERED = ("chain", "action", "run", "event")


class BackupError(CatenaError):
    """The backup could not be made, or is none."""


def back_up(database: Path, target: Path) -> int:
    """Copy a database, also one in use, to a new file of mode 0600; return its size in bytes.

    The copy is complete and checked before it gets its name.

    Raises:
        NotFoundError: there is no database.
        BackupError: *target* exists, or the copy is not sound; nothing is left of it.
    """
    if not database.is_file():
        raise NotFoundError(f"{database}: there is no database")
    if target.exists():
        raise BackupError(f"{target} exists; a backup never replaces a file")
    partial = target.with_name(f".{target.name}.part")
    try:
        _copy(database, partial)
        os.link(partial, target)
        sync_folder(target.parent)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"{target}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return target.stat().st_size


def keep_before_upgrade(database: Path) -> Path | None:
    """Keep a copy of a database that the next start will bring to a newer schema.

    The version that made it can be installed again and start on the copy (`store restore`).

    Returns:
        The copy, made now or by an earlier attempt; None when nothing will change.
    """
    if not database.is_file() or not database.stat().st_size:
        return None
    with opened(f"sqlite:///{database}") as engine:
        revision = schema.current(engine)
    if not revision or revision >= schema.HEAD:
        return None
    kept = database.with_name(f"{database.name}.schema-{revision}")
    if not kept.exists():
        back_up(database, kept)
    return kept


def _copy(database: Path, partial: Path) -> None:
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
    with (
        closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as source,
        closing(sqlite3.connect(partial)) as copy,
    ):
        source.backup(copy, pages=_STEP_PAGES)
        # A backup is one file, whatever reads it.
        copy.execute("PRAGMA journal_mode=DELETE")
        if copy.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise BackupError(f"{database} is damaged; the copy was not kept")
    with partial.open("rb") as handle:
        os.fsync(handle.fileno())


def restore(database: Path, source: Path, aside: Path, now: float) -> None:
    """Put a backup in the database's place; what was there is kept as *aside*.

    Numbers that the master may have given out after the backup are skipped, so that a chain made
    from now on is never taken for one that a minion knows. Repeating an interrupted call is safe.

    Args:
        database: the file of the master's database; it may be missing.
        source: the backup.
        aside: the name that the present database gets.
        now: wall clock, seconds since the epoch.

    Raises:
        NotFoundError, BackupError: *source* is no sound backup of a master; nothing was changed.
    """
    partial = database.with_name(f".{database.name}.restored")
    try:
        _check_backup(source)
        private_folder(database.parent)
        _copy(source, partial)
        with opened(f"sqlite:///{partial}") as engine:
            schema.upgrade(engine)
        _skip_numbers(partial)
        restored.mark(partial, now)
        _sync(partial)
        for suffix in ("", "-wal", "-shm"):
            old = database.with_name(database.name + suffix)
            if old.exists():
                old.rename(aside.with_name(aside.name + suffix))
        partial.rename(database)
        sync_folder(database.parent)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"{source}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _check_backup(source: Path) -> None:
    if not source.is_file():
        raise NotFoundError(f"{source}: there is no such backup")
    found = faults(f"sqlite:///{source}")
    if found:
        raise BackupError(f"{source} is no sound backup: {found[0]}")
    with opened(f"sqlite:///{source}") as engine:
        revision = schema.current(engine)
    if not revision:
        raise BackupError(f"{source} is no database of a catena master")
    if revision > schema.HEAD:
        raise schema.SchemaError(
            f"{source} has schema {revision}, this version knows {schema.HEAD}: "
            "install the version that made it"
        )


def _skip_numbers(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn, conn:
        (epoch,) = conn.execute("SELECT coalesce(max(epoch), 0) FROM run").fetchone()
        row = conn.execute("SELECT value FROM fact WHERE name = ?", (EPOCH_FLOOR,)).fetchone()
        floor = max(int(epoch), int(row[0]) if row else 0) + EPOCH_GAP
        conn.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (EPOCH_FLOOR, str(floor)))
        used = dict(conn.execute("SELECT name, seq FROM sqlite_sequence"))
        for name in _NUMBERED:
            conn.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            row = (name, used.get(name, 0) + ID_GAP)
            conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", row)


def _sync(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def next_epoch(conn: sa.Connection, epoch: int) -> int:
    """Return the epoch that follows *epoch*, beyond what a lost master may have used."""
    query = sa.select(tables.FACTS.c.value).where(tables.FACTS.c.name == EPOCH_FLOOR)
    return max(epoch, int(conn.execute(query).scalar() or 0)) + 1
