"""Replies about keys and enrol tokens."""

from __future__ import annotations

from typing import Dict

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class KeyLine:
    """One key in the list."""

    id: str
    fingerprint: str
    address: str
    #: Time of its last change of state, seconds since the epoch.
    since: float
    machine_id: str
    #: Why it cannot be accepted, or who else uses its id; "" if there is no conflict.
    conflict: str


@dataclass(frozen=True)
class KeysChanged:
    """The keys affected by a change."""

    #: Ids whose keys were changed.
    changed: tuple[str, ...]
    #: Minions that were notified of their acceptance and connect at once.
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of the master's key and of each minion's."""

    master: str
    minions: Dict[str, str]


@dataclass(frozen=True)
class EnrolToken:
    """A token; it is shown once and stored hashed."""

    token: str
    #: Seconds since the epoch.
    expires: float
