"""Location, size and soundness of the database as a whole, for operators.

Only SQLite databases are examined and compacted here; PostgreSQL has its own tools.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from catena.core import checkup
from catena.core.errors import NotFoundError, UsageError
from catena.master.store import lock, schema, soundness
from catena.master.store.database import (
    LOCK_PATIENCE_SECONDS,
    StoreCorruptError,
    StoreUnavailableError,
    is_file,
)
from catena.master.store.file_kinds import refuse_special
from catena.master.store.metadata import METADATA

_COUNT = sa.select(sa.func.count())


@dataclass(frozen=True, slots=True)
class Summary:
    """The data that `catena store show` prints."""

    place: str
    #: Schema revision of the database, and below that of this version.
    revision: str
    known_revision: str
    #: Size of the file, and below the free space in it; 0 for PostgreSQL.
    size_bytes: int
    free_bytes: int
    #: Table -> number of rows.
    rows: Mapping[str, int]


def sqlite_file(url: str) -> Path:
    """Return the file of an SQLite URL.

    Raises:
        UsageError: the URL is of a PostgreSQL database; the message names the tools to use.
    """
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite":
        raise UsageError(
            f"{made.render_as_string()} is a PostgreSQL database: use pg_dump -Fc and pg_restore"
        )
    return Path(made.database or "")


def summary(url: str) -> Summary:
    """Return size, schema and row counts of the database, without changing anything.

    Raises:
        NotFoundError: there is no database yet.
        StoreCorruptError: the database is damaged.
    """
    with opened(url) as engine, engine.connect() as conn:
        names = set(sa.inspect(conn).get_table_names())
        counts = {
            table.name: int(conn.execute(_COUNT.select_from(table)).scalar_one())
            for table in METADATA.sorted_tables
            if table.name in names
        }
        size, free = _sizes(conn)
        revision = schema.current(engine)
    place = sa.make_url(url).render_as_string()
    return Summary(place, revision, schema.HEAD, size, free, counts)


def used_bytes(conn: sa.Connection) -> int:
    """Return how many bytes of the database file are in use; 0 for PostgreSQL."""
    size, free = _sizes(conn)
    return size - free


def _sizes(conn: sa.Connection) -> tuple[int, int]:
    if conn.dialect.name != "sqlite":
        return 0, 0

    def pragma(name: str) -> int:
        return int(conn.exec_driver_sql(f"PRAGMA {name}").scalar_one())

    page = pragma("page_size")
    return pragma("page_count") * page, pragma("freelist_count") * page


def faults(url: str) -> list[str]:
    """Return the errors found in the database; [] if it is sound.

    SQLite runs its complete integrity check, which reads every page. The write-ahead log is only
    checked if no master is running.
    """
    file = sqlite_file(url) if is_file(url) else None
    if file is not None and file.is_file():
        in_use = checkup.is_locked(lock.path_of(file))
        found = soundness.table_faults(file) if in_use else soundness.shape_faults(file)
        if found:
            return found
    try:
        with opened(url) as engine, engine.connect() as conn:
            if conn.dialect.name != "sqlite":
                return []
            found = [str(row[0]) for row in conn.exec_driver_sql("PRAGMA integrity_check(20)")]
            broken = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
    except StoreCorruptError as error:
        return [str(error)]
    lost = [f"{row[0]}: row {row[1]} refers to a missing row of {row[2]}" for row in broken]
    return [text for text in found if text != "ok"] + lost[:20]


def vacuum(database: Path) -> None:
    """Return the free space of a database file to the file system; writers wait meanwhile.

    Raises:
        TryLaterError: the database was locked for too long.
    """
    with closing(sqlite3.connect(database, timeout=LOCK_PATIENCE_SECONDS)) as conn:
        try:
            conn.execute("VACUUM")
        except sqlite3.OperationalError as error:
            raise StoreUnavailableError(f"{database}: {error}") from None


@contextmanager
def opened(url: str) -> Iterator[sa.Engine]:
    """Yield an engine for reading.

    Raises:
        NotFoundError: there is no SQLite file.
        InvalidStateError: a folder or a pipe has the place of the file.
        StoreCorruptError: any error of the database in the block.
    """
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        refuse_special(Path(made.database or ""))
        if not Path(made.database or "").is_file():
            raise NotFoundError(f"{made.database}: there is no database")
        name = f"file:{quote(str(made.database))}"
        made = made.set(database=name, query={"mode": "rw", "uri": "true"})
    engine = sa.create_engine(made, poolclass=sa.pool.NullPool)
    try:
        yield engine
    except sa.exc.DatabaseError as error:
        place = sa.make_url(url).render_as_string()
        raise StoreCorruptError(f"{place}: {error.orig}") from error
    finally:
        engine.dispose()
