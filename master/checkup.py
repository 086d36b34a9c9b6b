"""A look at everything that a master keeps. Nothing is changed; the daemon may run or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.core import checkup
from catena.core.checkup import Finding, Level
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master.chains import findings as chain_findings
from catena.master.executions.lifecycle import OPEN
from catena.master.jobs import findings as job_findings
from catena.master.process import cli_access
from catena.master.push.lifecycle import HostState
from catena.master.store import growth, lock, schema, sole, upkeep
from catena.master.store.chain_tables import CHAINS
from catena.master.store.database import database_url
from catena.master.store.execution_tables import EXECUTIONS
from catena.master.store.ssh_tables import SSH_HOSTS
from catena.master.store.tables import (
    CURSORS,
    EVENTS,
    KEYS,
    MINIONS,
    REACTIONS,
)
from catena.transport import keys

#: Events that a consumer may be behind before it is worth a word.
LAG = 1000
#: How long the report of a damaged file is shown.
DAMAGE_SECONDS = 7 * 24 * 3600.0
_SHOWN = 5


def check(settings: MasterSettings) -> Iterator[Finding]:
    """Yield what there is to say of a master with *settings*."""
    yield _running(settings)
    yield from _keys(Path(settings.pki_dir))
    for folder in (settings.state_dir, settings.pki_dir, settings.run_dir):
        yield from checkup.private(Path(folder))
    yield from cli_access.findings(settings)
    yield checkup.disk(Path(settings.state_dir))
    url = database_url(settings)
    try:
        yield from _store(url, settings)
    except CatenaError as error:
        yield Finding("store", Level.fault, str(error), "docs: howto/recover")
    except sa.exc.SQLAlchemyError as error:
        yield Finding("store", Level.fault, f"the database can't be reached: {error}")


def _running(settings: MasterSettings) -> Finding:
    url = database_url(settings)
    text = "the master does not run"
    not_running = Finding("daemon", Level.warning, text, "start catena-master")
    if url.startswith("sqlite"):
        runs = checkup.is_locked(lock.path_of(upkeep.sqlite_file(url)))
        return Finding("daemon", Level.ok, "the master runs") if runs else not_running
    try:
        with upkeep.opened(url) as engine, engine.connect() as conn:
            found = sole.holder(conn.connection.dbapi_connection)
    except CatenaError as error:
        return Finding("daemon", Level.warning, f"nobody knows whether the master runs: {error}")
    if found is None:
        return not_running
    return Finding("daemon", Level.ok, f"the database is in use by {found}")


def _keys(folder: Path) -> Iterator[Finding]:
    if not (folder / "curve.key").exists():
        yield Finding("keys", Level.note, f"{folder} has no key yet; the first start makes one")
        return
    try:
        yield Finding("keys", Level.ok, f"the master's key: {keys.load(folder).fingerprint}")
    except (CatenaError, OSError) as error:
        advice = f"restore {folder} from a backup: every minion knows this key"
        yield Finding("keys", Level.fault, str(error), advice)


def _store(url: str, settings: MasterSettings) -> Iterator[Finding]:
    if url.startswith("sqlite") and not upkeep.sqlite_file(url).exists():
        yield Finding("store", Level.note, "there is no database yet; the first start makes one")
        return
    found = upkeep.faults(url)
    if found:
        advice = "stop the master, then: catena store restore BACKUP"
        yield Finding("store", Level.fault, found[0], advice)
        return
    summary = upkeep.summary(url)
    yield _schema(summary)
    limit = settings.keep_store_mib * 1024 * 1024
    if limit and summary.size_bytes - summary.free_bytes > limit:
        text = f"the store uses more than keep_store_mib ({settings.keep_store_mib})"
        yield Finding("store", Level.warning, text, "catena store prune")
    if summary.revision != schema.HEAD:
        return
    with upkeep.opened(url) as engine, engine.connect() as conn:
        yield from _minions(conn)
        yield from chain_findings.check(conn)
        yield from _ssh_hosts(conn)
        yield from _lag(conn)
        yield from growth.findings(conn, time.time())
        yield from _reactions(conn)
        yield from job_findings.check(conn)
        yield from _damaged(conn)
        newest = conn.execute(sa.select(sa.func.max(EVENTS.c.at))).scalar()
        yield checkup.clock(float(newest or 0.0))


def _schema(summary: upkeep.Summary) -> Finding:
    text = f"sound, schema {summary.revision}, {summary.size_bytes // (1024 * 1024)} MiB"
    if summary.revision < schema.HEAD:
        return Finding("store", Level.note, text, "the next start, or catena store upgrade")
    if summary.revision > schema.HEAD:
        return Finding("store", Level.fault, text, "it belongs to a newer catena: install that")
    return Finding("store", Level.ok, text)


def _minions(conn: sa.Connection) -> Iterator[Finding]:
    pending = _names(conn, sa.select(KEYS.c.minion).where(KEYS.c.state == "pending"))
    if pending:
        yield Finding("keys", Level.note, f"wait to be accepted: {pending}", "catena key list")
    clash = _names(conn, sa.select(MINIONS.c.id).where(MINIONS.c.conflict != ""))
    if clash:
        advice = "two hosts claim one identity: catena minion show NAME says which"
        yield Finding("minions", Level.warning, f"in conflict: {clash}", advice)
    by_ssh = sa.select(SSH_HOSTS.c.id)
    down = sa.select(MINIONS.c.id).where(MINIONS.c.up == sa.false(), MINIONS.c.last_seen > 0)
    down = down.where(MINIONS.c.id.not_in(by_ssh))
    away = _names(conn, down)
    if away:
        yield Finding("minions", Level.note, f"not connected: {away}", "catena minion list")


def _names(conn: sa.Connection, query: sa.Select[Any]) -> str:
    found: list[str] = sorted(set(conn.execute(query.limit(10_000)).scalars()))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _ssh_hosts(conn: sa.Connection) -> Iterator[Finding]:
    """Yield the hosts over SSH that hold a chain, and why."""
    stuck = (HostState.away.value, HostState.refused.value, HostState.unfit.value)
    query = (
        sa.select(SSH_HOSTS.c.id, SSH_HOSTS.c.state, SSH_HOSTS.c.detail)
        .add_columns(CHAINS.c.id.label("chain"), CHAINS.c.label)
        .join(EXECUTIONS, EXECUTIONS.c.minion == SSH_HOSTS.c.id)
        .join(CHAINS, CHAINS.c.run == EXECUTIONS.c.run)
        .where(SSH_HOSTS.c.state.in_(stuck), EXECUTIONS.c.status.in_(OPEN))
        .where(CHAINS.c.dispatched == sa.true())
        .distinct()
        .order_by(SSH_HOSTS.c.id)
    )
    for row in conn.execute(query.limit(_SHOWN)):
        level = Level.note if row.state == HostState.away.value else Level.warning
        text = f"{row.id} holds chain {row.label!r} ({row.chain}): {row.detail}"
        yield Finding("ssh", level, text, f"catena chain show {row.chain}")


def _lag(conn: sa.Connection) -> Iterator[Finding]:
    last = int(conn.execute(sa.select(sa.func.max(EVENTS.c.seq))).scalar() or 0)
    for consumer, seq in conn.execute(sa.select(CURSORS.c.consumer, CURSORS.c.seq)):
        if last - seq > LAG:
            text = f"{consumer} is {last - seq} events behind"
            yield Finding("events", Level.warning, text, "the master's log says what it waits for")


def _reactions(conn: sa.Connection) -> Iterator[Finding]:
    """Yield how many reactions of each file failed and are tried again, with the newest error."""
    newest = sa.func.max(REACTIONS.c.id)
    query = sa.select(REACTIONS.c.file, sa.func.count(), newest).group_by(REACTIONS.c.file)
    for file, count, row in conn.execute(query.order_by(REACTIONS.c.file).limit(_SHOWN)):
        one = sa.select(REACTIONS.c.error, REACTIONS.c.attempts).where(REACTIONS.c.id == row)
        error, attempts = conn.execute(one).one()
        text = f"{file}: {count} to be tried again; the newest, tried {attempts} times so far: "
        advice = "mend the file, then: catena runner reactor.retry (catena runner reactor.waiting)"
        yield Finding("reactions", Level.warning, text + error.partition("\n")[0][:200], advice)


def _damaged(conn: sa.Connection) -> Iterator[Finding]:
    """Yield the files of minions that were damaged lately."""
    query = (
        sa.select(EVENTS.c.source, EVENTS.c.data)
        .where(EVENTS.c.at > time.time() - DAMAGE_SECONDS)
        .where(EVENTS.c.tag.like("minion/%/event/damaged"), EVENTS.c.source != "")
        .order_by(EVENTS.c.seq.desc())
    )
    for source, data in conn.execute(query.limit(_SHOWN)):
        text = f"{source}: {data.get('path')} was damaged; lost: {data.get('lost')}"
        yield Finding("damage", Level.warning, text, f"on {source}: catena doctor minion")
