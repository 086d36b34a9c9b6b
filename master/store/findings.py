"""Findings of `catena doctor` about the database as a whole."""

from __future__ import annotations

from catena.core import checkup
from catena.core.checkup import Finding, Level
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master.store import lock, opening, schema, sole, soundness, upkeep
from catena.master.store.database import database_url, is_file
from catena.master.store.metadata import RESTORE


def running(settings: MasterSettings) -> Finding:
    """Return whether the master runs, from the lock on its database."""
    url = database_url(settings)
    text = "the master does not run"
    not_running = Finding("daemon", Level.warning, text, "start catena-master")
    if is_file(url):
        runs = checkup.is_locked(lock.path_of(upkeep.sqlite_file(url)))
        return Finding("daemon", Level.ok, "the master runs") if runs else not_running
    try:
        with upkeep.opened(url) as engine, engine.connect() as conn:
            found = sole.holder(conn.connection.dbapi_connection)
    except CatenaError as error:
        text = f"it is unknown whether the master runs: {error}"
        return Finding("daemon", Level.warning, text)
    if found is None:
        return not_running
    return Finding("daemon", Level.ok, f"the database is in use by {found}")


def whole(url: str, settings: MasterSettings) -> tuple[list[Finding], upkeep.Summary | None]:
    """Return findings about the database, and its summary if it is sound.

    Raises:
        CatenaError: the next start would refuse the database, or it can't be reached.
    """
    if soundness.is_fresh(url):
        opening.refuse_lost(settings)
        text = "there is no database yet; the first start creates it"
        return [Finding("store", Level.note, text)], None
    faults = upkeep.faults(url)
    if faults:
        return [Finding("store", Level.fault, faults[0], RESTORE)], None
    summary = upkeep.summary(url)
    found = [_schema(summary)]
    limit = settings.keep_store_mib * 1024 * 1024
    if limit and summary.size_bytes - summary.free_bytes > limit:
        text = f"the store uses more than keep_store_mib ({settings.keep_store_mib})"
        found.append(Finding("store", Level.warning, text, "catena store prune"))
    return found, summary


def _schema(summary: upkeep.Summary) -> Finding:
    text = f"sound, schema {summary.revision}, {summary.size_bytes // (1024 * 1024)} MiB"
    if summary.revision < schema.HEAD:
        advice = "the next start upgrades it, or run: catena store upgrade"
        return Finding("store", Level.note, text, advice)
    if summary.revision > schema.HEAD:
        advice = "the database belongs to a newer version of catena; install that version"
        return Finding("store", Level.fault, text, advice)
    return Finding("store", Level.ok, text)
