"""Findings of `catena doctor` about the master's key and about pending keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from catena.core.checkup import Finding, Level, listed
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master.keys import rows
from catena.transport import keys


def pair(settings: MasterSettings) -> Iterator[Finding]:
    """Yield whether the master's key exists and is readable."""
    folder = Path(settings.pki_dir)
    if not (folder / "curve.key").exists():
        yield Finding("keys", Level.note, f"{folder} has no key yet; the first start makes one")
        return
    try:
        yield Finding("keys", Level.ok, f"the master's key: {keys.load(folder).fingerprint}")
    except (CatenaError, OSError) as error:
        advice = f"restore {folder} from a backup: every minion knows this key"
        yield Finding("keys", Level.fault, str(error), advice)


def waiting(conn: sa.Connection, now: float) -> Iterator[Finding]:
    """Yield the minions whose keys are pending."""
    pending = listed(rows.pending(conn))
    if pending:
        yield Finding("keys", Level.note, f"wait to be accepted: {pending}", "catena key list")
