"""Checks of a database file before it is used: its header, size, log, tables and pages."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.master.store import schema, wal
from catena.master.store.database import StoreCorruptError
from catena.master.store.file_kinds import refuse_special
from catena.master.store.metadata import METADATA

#: Size in bytes up to which every page is read before the master starts to serve.
QUICK_BYTES = 200 * 1024 * 1024
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_FAULTS_SHOWN = 5


def is_empty(database: Path) -> bool:
    """Return whether there is no database yet: no file, or an empty one."""
    try:
        return database.stat().st_size == 0
    except FileNotFoundError:
        return True


def is_unborn(database: Path) -> bool:
    """Return whether a database has no tables because its first start was interrupted.

    In that case SQLite has written only one page with the header. The tables and all later data go
    through the log, so a damaged log is a different case.
    """
    with database.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if header[28:32] != b"\0\0\0\1" or _header_faults(database) or wal.faults(database):
        return False
    try:
        with closing(_connect(database)) as conn:
            return conn.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    except sqlite3.DatabaseError:
        return False


def refuse_damaged(database: Path) -> None:
    """Check a database that nobody has open; a large one only by its header, log and tables.

    Raises:
        StoreCorruptError: the database is damaged; the message names the damage and the remedy.
    """
    found = shape_faults(database)
    if not found and database.stat().st_size <= QUICK_BYTES:
        found = page_faults(database)
    if found:
        raise StoreCorruptError(
            f"the database is damaged, and is not served: {found[0]}; "
            "to return to a backup: catena store restore BACKUP"
        )


def shape_faults(database: Path) -> list[str]:
    """Return what is wrong with the header and size of a file that nobody has open."""
    if is_empty(database):
        return [f"{database}: it is empty (0 bytes)"]
    return _header_faults(database) or wal.faults(database) or table_faults(database)


def _header_faults(database: Path) -> list[str]:
    with database.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    size = database.stat().st_size
    if header[:16] != _MAGIC or len(header) < _HEADER_BYTES:
        return [f"{database}: it has no header of an SQLite database"]
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1):
        return [f"{database}: its header is damaged (page size {page})"]
    log = database.with_name(f"{database.name}-wal")
    if log.exists() and log.stat().st_size:
        # Pages that are only in the log may be beyond the end of the file.
        return []
    # The page count is valid if the version that wrote it was the last to change the file.
    pages = int.from_bytes(header[28:32], "big")
    if header[24:28] == header[92:96] and pages * page != size:
        return [f"{database}: it has {size} bytes, but {pages * page} according to its header"]
    return []


def table_faults(database: Path) -> list[str]:
    """Return the missing tables of this version's schema."""
    try:
        with closing(_connect(database)) as conn:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            names = {str(row[0]) for row in conn.execute(query)}
            if "alembic_version" not in names:
                return [f"{database}: it is not the store of a catena master"]
            row = conn.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        return [f"{database}: {error}"]
    if row is None:
        return [f"{database}: its schema version is missing"]
    wanted = {table.name for table in METADATA.sorted_tables} if row[0] == schema.HEAD else set()
    missing = sorted(wanted - names)
    return [f"{database}: table {missing[0]} is missing"] if missing else []


def page_faults(database: Path) -> list[str]:
    """Return the findings of SQLite's quick check, which reads every page."""
    try:
        with closing(_connect(database)) as conn:
            rows = conn.execute(f"PRAGMA quick_check({_FAULTS_SHOWN})").fetchall()
    except sqlite3.DatabaseError as error:
        return [f"{database}: {error}"]
    return [f"{database}: {row[0]}" for row in rows if row[0] != "ok"]


def _connect(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(database))}?mode=rw", uri=True)


async def check_in_background(database: Path) -> list[str]:
    """Return the result of `page_faults`, computed in a process of the lowest priority.

    Raises:
        CatenaError: the process failed.
    """
    argv = (sys.executable, "-I", "-c", f"from {__name__} import main; main()", str(database))
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe)
    try:
        out, err = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        raise CatenaError(f"the database could not be checked: {last}")
    return out.decode(errors="replace").splitlines()


def main() -> None:
    """Print the result of `page_faults` for the file in the first argument."""
    os.nice(19)
    for line in page_faults(Path(sys.argv[1])):
        print(line)


def is_fresh(url: str) -> bool:
    """Return whether a database has no schema yet.

    Raises:
        CatenaError: it cannot be reached, or is a folder or a pipe.
    """
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        file = Path(made.database or "")
        refuse_special(file)
        return is_empty(file) or is_unborn(file)
    engine = sa.create_engine(made, poolclass=sa.pool.NullPool)
    try:
        return not schema.current(engine)
    except sa.exc.SQLAlchemyError as error:
        raise CatenaError(f"the database can't be reached: {error}") from None
    finally:
        engine.dispose()
