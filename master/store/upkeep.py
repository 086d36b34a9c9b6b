"""What an operator asks about the database as a whole: where, how large, is it sound.

SQLite answers by its own means; PostgreSQL has tools of its own, and who runs one knows them.
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
from catena.master.store import chain_tables, lock, schema, soundness, tables
from catena.master.store.database import (
    LOCK_PATIENCE_SECONDS,
    StoreCorruptError,
    StoreUnavailableError,
    is_file,
)
from catena.master.store.metadata import METADATA

#: Imported so that METADATA has every table.
_TABLES = (tables, chain_tables)
_COUNT = sa.select(sa.func.count())


@dataclass(frozen=True, slots=True)
class Summary:
    """What `catena store show` says."""

    place: str
    revision: str
    known_revision: str
    #: Of the file and of what is free in it; 0 for PostgreSQL's.
    size_bytes: int
    free_bytes: int
    rows: Mapping[str, int]


def sqlite_file(url: str) -> Path:
    """Return the file of an SQLite URL.

    Raises:
        UsageError: it is PostgreSQL's; the message names the tool to use.
    """
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite":
        raise UsageError(
            f"the store is {made.render_as_string()}: use pg_dump -Fc and pg_restore for it"
        )
    return Path(made.database or "")


def summary(url: str) -> Summary:
    """Return what the database holds, without changing anything.

    Raises:
        NotFoundError: there is none yet.
        StoreCorruptError: it is damaged.
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
    """Return how much of the database file is in use; 0 for PostgreSQL."""
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
    """Return what is wrong with the database, in words; [] when it is sound.

    SQLite is asked for its whole integrity check, which reads every page. Its log is checked where
    no master writes to it.
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
    lost = [f"{row[0]}: row {row[1]} belongs to a {row[2]} that is not there" for row in broken]
    return [text for text in found if text != "ok"] + lost[:20]


def give_back(database: Path) -> None:
    """Make the file as small as what is in it; writers wait meanwhile.

    Raises:
        TryLaterError: the database is in use for too long.
    """
    with closing(sqlite3.connect(database, timeout=LOCK_PATIENCE_SECONDS)) as conn:
        try:
            conn.execute("VACUUM")
        except sqlite3.OperationalError as error:
            raise StoreUnavailableError(f"{database}: {error}") from None


@contextmanager
def opened(url: str) -> Iterator[sa.Engine]:
    """Yield an engine for reading; errors of the database come out as ours."""
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
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
