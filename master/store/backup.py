"""Backups of an SQLite store, and their restoration.

SQLite's online backup takes a consistent copy while the master writes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from catena.core.errors import CatenaError, NotFoundError
from catena.core.files import private_folder, sync_folder
from catena.master.store import restored, schema, used_numbers
from catena.master.store.upkeep import faults, opened

#: Number of pages that a backup copies before it lets the master write.
_STEP_PAGES = 2000


class BackupError(CatenaError):
    """A backup could not be made, or a file is not a backup."""


def back_up(database: Path, target: Path) -> int:
    """Copy a database, even one in use, to a new file of mode 0600; return its size in bytes.

    The copy is complete and checked before it gets its name.

    Raises:
        NotFoundError: there is no database.
        BackupError: *target* exists, or the copy is damaged; no partial file is left.
    """
    if not database.is_file():
        raise NotFoundError(f"{database}: there is no database")
    if target.exists():
        raise BackupError(f"{target} exists; a backup never replaces a file")
    _copy_whole(database, target, os.link)
    return target.stat().st_size


def _copy_whole(database: Path, target: Path, name: Callable[[Path, Path], None]) -> None:
    """Copy a database to a partial file, and let *name* give the complete copy its name."""
    partial = target.with_name(f".{target.name}.part")
    try:
        _copy(database, partial)
        name(partial, target)
        sync_folder(target.parent)
    except (sqlite3.Error, OSError) as error:
        raise BackupError(f"{target}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def keep_before_upgrade(database: Path) -> Path | None:
    """Keep a copy of a database that the next start will upgrade to a newer schema.

    After a downgrade, the older version can use the copy (`store restore`). The copy of an earlier
    upgrade from the same schema is replaced: the database was in use since.

    Returns:
        The copy; None if there is nothing to upgrade.

    Raises:
        BackupError: the copy could not be made; an earlier one is unchanged.
    """
    if not database.is_file() or not database.stat().st_size:
        return None
    with opened(f"sqlite:///{database}") as engine:
        revision = schema.current(engine)
    if not revision or revision >= schema.HEAD:
        return None
    kept = database.with_name(f"{database.name}.schema-{revision}")
    _copy_whole(database, kept, os.replace)
    return kept


def _copy(database: Path, partial: Path) -> None:
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
    with (
        closing(sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)) as source,
        closing(sqlite3.connect(partial)) as copy,
    ):
        source.backup(copy, pages=_STEP_PAGES)
        # Without WAL the backup is a single file for every reader.
        copy.execute("PRAGMA journal_mode=DELETE")
        if copy.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise BackupError(f"{database} is damaged; the copy was not kept")
    with partial.open("rb") as handle:
        os.fsync(handle.fileno())


def restore(database: Path, source: Path, aside: Path, now: float) -> None:
    """Replace the database by a backup; keep the replaced file as *aside*.

    Numbers that a master may have assigned after the backup are skipped, so that a new chain is
    never mistaken for one that a minion knows. The replaced database tells some of them: it may
    have been restored from the same backup. An interrupted call can safely be repeated.

    Args:
        database: the file of the master's database; it may be missing.
        source: the backup.
        aside: new name of the replaced database.
        now: wall clock, seconds since the epoch.

    Raises:
        NotFoundError, BackupError: *source* is not an intact backup; nothing was changed.
    """
    partial = database.with_name(f".{database.name}.restored")
    try:
        _check_backup(source)
        private_folder(database.parent)
        _copy(source, partial)
        with opened(f"sqlite:///{partial}") as engine:
            schema.upgrade(engine)
        used = used_numbers.read(partial, now).merged(used_numbers.read(database, now))
        used_numbers.skip(partial, used, now)
        restored.mark(partial, now, used.jid)
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
        raise BackupError(f"{source} is not an intact backup: {found[0]}")
    with opened(f"sqlite:///{source}") as engine:
        revision = schema.current(engine)
    if not revision:
        raise BackupError(f"{source} is not a database of a catena master")
    if revision > schema.HEAD:
        raise schema.SchemaError(
            f"{source} has schema {revision}, this version knows {schema.HEAD}: "
            "install the version that made it"
        )


def _sync(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
