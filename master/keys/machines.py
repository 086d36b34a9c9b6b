"""The accepted minion to which a machine id belongs; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineClaim:
    """An accepted minion that claims, or once claimed, a machine id."""

    minion: str
    #: Time of its key's acceptance, seconds since the epoch.
    since: float
    #: Whether its last Hello claimed this machine.
    used: bool
    #: Whether its key asked for acceptance as this machine.
    enrolled: bool


def owner(claims: Iterable[MachineClaim]) -> str:
    """Return the minion to which a machine id belongs; "" if nobody claims it.

    A minion whose Hello claims the machine has precedence over one that only enrolled as it; then
    the earliest acceptance counts. Being connected does not matter: otherwise a clone that comes
    up while the real host is away would replace it.
    """
    ranked = sorted(
        (claim for claim in claims if claim.used or claim.enrolled),
        key=lambda claim: (not claim.used, claim.since, claim.minion),
    )
    return ranked[0].minion if ranked else ""
