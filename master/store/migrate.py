"""Upgrades an older database to the current schema in a separate process.

Alembic and its imports take 15 MB, a quarter of a master, and are needed once per version.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from catena.core.errors import CatenaError
from catena.master.store import schema, soundness, upkeep
from catena.master.store.database import Store


async def prepare(url: str) -> None:
    """Create the tables of a new database at *url*, or run the missing migrations of an older one.

    `Store.open` checks the schema in any case, and reports a failed migration.

    Raises:
        CatenaError: the new database cannot be created or reached.
    """
    if soundness.is_fresh(url):
        await _open(url)
    elif _is_older(url):
        await asyncio.to_thread(_migrate, url)


def _migrate(url: str) -> None:
    argv = [sys.executable, "-I", "-c", f"from {__name__} import main; main()"]
    # Through a pipe, because the URL of a database server contains its password.
    subprocess.run(argv, input=url.encode(), stderr=subprocess.DEVNULL, check=False)


def _is_older(url: str) -> bool:
    try:
        with upkeep.opened(url) as engine:
            return schema.current(engine) < schema.HEAD
    except CatenaError:
        return False


def main() -> None:
    """Open and close the store whose URL is on stdin."""
    asyncio.run(_open(sys.stdin.read()))


async def _open(url: str) -> None:
    store = Store(url)
    await store.open()
    await store.close()
