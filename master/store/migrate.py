"""Brings the database to its schema in a process of its own, which then ends.

Alembic and what it loads are 15 MB, a quarter of a master, that is needed once per version.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.master.store import schema, upkeep
from catena.master.store.database import Store


def apart(url: str) -> bool:
    """Bring the database at *url* up to date, if it is not; return whether that was tried.

    What goes wrong is told by `Store.open`, which looks at the schema in any case.
    """
    if not _lacks(url):
        return False
    argv = [sys.executable, "-I", "-c", f"from {__name__} import main; main()"]
    # By a pipe: the URL of a database server holds its password.
    subprocess.run(argv, input=url.encode(), stderr=subprocess.DEVNULL, check=False)
    return True


def _lacks(url: str) -> bool:
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite" and not Path(made.database or "").is_file():
        return True
    try:
        with upkeep.opened(url) as engine:
            return schema.current(engine) < schema.HEAD
    except CatenaError:
        return False


def main() -> None:
    """Open and close the store whose URL comes on stdin."""
    asyncio.run(_open(sys.stdin.read()))


async def _open(url: str) -> None:
    store = Store(url)
    await store.open()
    await store.close()
