"""Queries on keys and enrol tokens; each runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.keys.ring import KnownKey
from catena.master.store.tables import KEYS, TOKENS

#: Maximum number of pending keys that `catena doctor` reads.
_PENDING_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class StoredToken:
    """An enrol token that is neither used nor expired."""

    id: int
    #: SHA-256 of the token, hex.
    digest: str


@dataclass(frozen=True, slots=True)
class NewToken:
    """An enrol token about to be stored."""

    #: SHA-256 of the token, hex.
    digest: str
    #: The only id that may use it; "" for any.
    minion: str
    made_by: str
    #: Seconds since the epoch.
    expires: float


def every(conn: sa.Connection) -> Sequence[KnownKey]:
    """Return all keys."""
    return [_known(row) for row in conn.execute(sa.select(KEYS)).all()]


def insert(conn: sa.Connection, key: KnownKey, decided_by: str = "") -> None:
    """Store a key."""
    row = {
        "minion": key.minion,
        "public_key": key.public,
        "fingerprint": key.fingerprint,
        "state": key.state,
        "machine_id": key.machine_id,
        "address": key.address,
        "version": key.version,
        "reason": key.reason,
        "since": key.since,
        "seen": key.since,
        "decided_by": decided_by,
    }
    conn.execute(sa.insert(KEYS).values(row))


def decide(conn: sa.Connection, key: KnownKey, decided_by: str) -> None:
    """Store state, reason and time of a user's decision about a key."""
    values = {
        "state": key.state, "since": key.since, "decided_by": decided_by, "reason": key.reason,
    }  # fmt: skip
    conn.execute(sa.update(KEYS).where(KEYS.c.fingerprint == key.fingerprint).values(values))


def deny(conn: sa.Connection, key: KnownKey) -> None:
    """Store state, reason and time of a key that the master denies."""
    change = sa.update(KEYS).where(KEYS.c.fingerprint == key.fingerprint)
    conn.execute(change.values(state=key.state, reason=key.reason, since=key.since))


def accept(conn: sa.Connection, fingerprint: str) -> None:
    """Mark an announced key as accepted."""
    change = sa.update(KEYS).where(KEYS.c.fingerprint == fingerprint)
    conn.execute(change.values(state="accepted"))


def seen(conn: sa.Connection, fingerprint: str, now: float) -> None:
    """Store when a key was last used on the enrol socket."""
    conn.execute(sa.update(KEYS).where(KEYS.c.fingerprint == fingerprint).values(seen=now))


def delete(conn: sa.Connection, fingerprint: str) -> None:
    """Delete a key, if it exists."""
    conn.execute(sa.delete(KEYS).where(KEYS.c.fingerprint == fingerprint))


def delete_pending(conn: sa.Connection, fingerprint: str) -> None:
    """Delete a key, unless it was decided meanwhile."""
    gone = KEYS.c.fingerprint == fingerprint
    conn.execute(sa.delete(KEYS).where(gone, KEYS.c.state == "pending"))


def rival(conn: sa.Connection, minion: str, fingerprint: str) -> KnownKey | None:
    """Return a pending or valid key that claims an id, other than *fingerprint*; None if none."""
    rule = (KEYS.c.minion == minion) & (KEYS.c.fingerprint != fingerprint)
    rule = rule & KEYS.c.state.in_(["pending", "accepted", "announced"])
    found = conn.execute(sa.select(KEYS).where(rule)).first()
    return None if found is None else _known(found)


def pending(conn: sa.Connection) -> Sequence[str]:
    """Return the minions whose keys are pending, at most _PENDING_LIMIT."""
    query = sa.select(KEYS.c.minion).where(KEYS.c.state == "pending")
    return conn.execute(query.limit(_PENDING_LIMIT)).scalars().all()


def usable_tokens(conn: sa.Connection, minion: str, now: float) -> Sequence[StoredToken]:
    """Return the tokens with which *minion* may enrol now."""
    live = sa.select(TOKENS).where(TOKENS.c.used_by == "", TOKENS.c.expires > now)
    rows = conn.execute(live.where(TOKENS.c.minion.in_(["", minion]))).all()
    return [StoredToken(row.id, row.digest) for row in rows]


def use_token(conn: sa.Connection, token: StoredToken, minion: str) -> None:
    """Mark a token as used by *minion*."""
    conn.execute(sa.update(TOKENS).where(TOKENS.c.id == token.id).values(used_by=minion))


def has_token(conn: sa.Connection, digest: str) -> bool:
    """Return whether a token with this digest was ever made."""
    made = sa.select(TOKENS.c.id).where(TOKENS.c.digest == digest)
    return conn.execute(made).first() is not None


def insert_token(conn: sa.Connection, token: NewToken) -> None:
    """Store a token."""
    row = {
        "digest": token.digest,
        "minion": token.minion,
        "made_by": token.made_by,
        "expires": token.expires,
    }
    conn.execute(sa.insert(TOKENS).values(row))


def _known(row: sa.Row[Any]) -> KnownKey:
    return KnownKey(
        row.public_key,
        row.fingerprint,
        row.minion,
        row.state,
        row.machine_id,
        row.address,
        row.version,
        row.reason,
        row.since,
    )
