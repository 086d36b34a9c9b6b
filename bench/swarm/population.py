"""Who the simulated minions are: made in bulk, and put into a master's store as accepted keys."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import sqlalchemy as sa

from catena.core.clock import SystemClock
from catena.master.events.bus import EventBus
from catena.master.keys import rows as key_rows
from catena.master.keys.ring import KnownKey
from catena.master.store.database import Store
from catena.transport.keys import KeyPair, generate


@dataclass(frozen=True)
class Member:
    """One simulated minion."""

    id: str
    machine_id: str
    public: str
    secret: str = field(repr=False)

    @property
    def pair(self) -> KeyPair:
        """Return its key pair."""
        return KeyPair(self.public, self.secret)


def make(count: int, prefix: str = "sim") -> list[Member]:
    """Return *count* members with new keys, named prefix00000 and so on."""
    pairs = (generate() for _ in range(count))
    return [
        Member(f"{prefix}{number:05d}", f"machine-{prefix}{number:05d}", pair.public, pair.secret)
        for number, pair in enumerate(pairs)
    ]


def save(members: Iterable[Member], path: Path) -> None:
    """Keep *members* in a file that only its owner reads."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump([asdict(member) for member in members], file)


def load(path: Path) -> list[Member]:
    """Return the members of a file that `save` wrote."""
    return [Member(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def accept(database: str, members: Sequence[Member]) -> None:
    """Store *members* as accepted minions of a master that does not run.

    Args:
        database: SQLAlchemy URL of its store, made if it is not there.
        members: whose ids the store does not know yet.
    """
    asyncio.run(_accept(database, members))


async def _accept(database: str, members: Sequence[Member]) -> None:
    store = Store(database)
    await store.open()
    try:
        now = time.time()
        await EventBus(store, SystemClock()).open()
        await store.write(lambda conn: _insert(conn, [_known(m, now) for m in members]))
    finally:
        await store.close()


def _insert(conn: sa.Connection, keys: Sequence[KnownKey]) -> None:
    for key in keys:
        key_rows.insert(conn, key)


def _known(member: Member, now: float) -> KnownKey:
    return KnownKey(
        public=member.public,
        fingerprint=member.pair.fingerprint,
        minion=member.id,
        state="accepted",
        machine_id=member.machine_id,
        address="127.0.0.1",
        version="1",
        reason="",
        since=now,
    )
