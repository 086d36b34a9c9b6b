"""Check-up of all data of a master. It changes nothing; the daemon may run or not.

Each package of the master contributes its checks (`master.contributions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from catena.core import checkup
from catena.core.checkup import Finding, Level
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master.process import cli_access
from catena.master.store import findings as store_findings
from catena.master.store import schema, upkeep
from catena.master.store.database import database_url

#: Yields findings about a package's files and settings.
HostCheck = Callable[[MasterSettings], Iterator[Finding]]
#: Yields findings about a package's rows, from a snapshot and the time now (epoch seconds).
StoreCheck = Callable[[sa.Connection, float], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Checks:
    """The contributions of all packages, in the order in which they are shown."""

    host: Sequence[HostCheck]
    store: Sequence[StoreCheck]


def check(settings: MasterSettings, checks: Checks) -> Iterator[Finding]:
    """Yield the findings about a master with *settings*."""
    yield store_findings.running(settings)
    for look in checks.host:
        yield from look(settings)
    for folder in (settings.state_dir, settings.pki_dir, settings.run_dir):
        yield from checkup.private(Path(folder))
    yield from cli_access.findings(settings)
    yield checkup.disk(Path(settings.state_dir))
    try:
        yield from _store(settings, checks.store)
    except CatenaError as error:
        yield Finding("store", Level.fault, str(error), "docs: howto/recover")
    except sa.exc.SQLAlchemyError as error:
        yield Finding("store", Level.fault, f"the database can't be reached: {error}")


def _store(settings: MasterSettings, checks: Sequence[StoreCheck]) -> Iterator[Finding]:
    url = database_url(settings)
    found, summary = store_findings.whole(url, settings)
    yield from found
    if summary is None or summary.revision != schema.HEAD:
        return
    now = time.time()
    with upkeep.opened(url) as engine, engine.connect() as conn:
        for look in checks:
            yield from look(conn, now)
