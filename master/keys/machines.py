"""Which of the accepted minions a machine id belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """An accepted minion that says, or once said, that it is a certain machine."""

    minion: str
    #: When its key was accepted, seconds since the epoch.
    since: float
    #: It has said Hello as that machine, and as no other since.
    used: bool
    #: Its key asked to be accepted as that machine.
    enrolled: bool


def owner(claims: Iterable[Claim]) -> str:
    """Return the minion that a machine id belongs to; "" where nobody claims it.

    A minion that works as that machine goes before one that only asked to; of several, the one
    whose key was accepted first. Whether it is connected does not matter: a clone that comes up
    while the true host is away would otherwise take its place.
    """
    ranked = sorted(
        (claim for claim in claims if claim.used or claim.enrolled),
        key=lambda claim: (not claim.used, claim.since, claim.minion),
    )
    return ranked[0].minion if ranked else ""
