"""Entry point of the master's process: check, lock and upgrade the store, then run a master."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from catena.core import failpoints
from catena.core.config.folders import CONFIG_DIR
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.privileges import become, keep_files_private
from catena.master.daemon import Master
from catena.master.process import heap, limits, log
from catena.master.store import backup, lock, migrate, opening, sole, upkeep
from catena.master.store.database import database_url, is_file

LOG = logging.getLogger(__name__)


def run(
    settings: MasterSettings,
    config_dir: str = CONFIG_DIR,
    *,
    new_store: bool = False,
    warnings: Sequence[str] = (),
) -> int:
    """Run a master until it is stopped; return the exit code of its process.

    Args:
        settings: checked settings; their folders already include `root_dir`.
        config_dir: folder of the configuration.
        new_store: accept a store that is empty or differs from the one that the keys were used
            with.
        warnings: warnings about the configuration, for the log.

    Raises:
        CatenaError: the master could not start.
    """
    failpoints.arm(settings.testing)
    keep_files_private()
    become(settings.user)
    log.set_up(settings.log_file, settings.log_level)
    for text in warnings:
        LOG.warning("%s", text)
    limits.raise_open_files()
    heap.share_memory()
    heap.collect_rarely()
    try:
        return asyncio.run(serve(settings, config_dir, new_store))
    except CatenaError as error:
        LOG.error("the master can't run: %s", error)
        raise
    except Exception:
        LOG.exception("the master stops because of an unexpected error")
        raise


async def serve(settings: MasterSettings, config_dir: str, new_store: bool) -> int:
    """Check, lock and upgrade the store, then run a master on it; return its exit code.

    Raises:
        CatenaError: the store can't be used, or the master could not start.
    """
    with _alone(settings):
        with _alone_to_upgrade(settings):
            note = opening.check(settings, new_store)
            _keep_old_store(settings)
            await migrate.prepare(database_url(settings))
            opening.claim(settings, note, new_store)
        master = Master(settings, config_dir=config_dir)
        # Handle signals before the sockets exist: with them, other processes may send signals.
        master.take_signals()
        await master.start()
        return await master.run()


def _keep_old_store(settings: MasterSettings) -> None:
    url = database_url(settings)
    kept = backup.keep_before_upgrade(upkeep.sqlite_file(url)) if is_file(url) else None
    if kept:
        LOG.info("the store is upgraded to a newer schema; %s is a copy of the old one", kept)


def _alone(settings: MasterSettings) -> AbstractContextManager[None]:
    """Lock a database file against other masters; on PostgreSQL, the open store holds the lock."""
    url = database_url(settings)
    if not is_file(url):
        return nullcontext()
    return lock.held(upkeep.sqlite_file(url), "a second one")


def _alone_to_upgrade(settings: MasterSettings) -> AbstractContextManager[None]:
    """Lock a PostgreSQL database against other masters until the store is open."""
    url = database_url(settings)
    return nullcontext() if is_file(url) else sole.held(url, "start")
