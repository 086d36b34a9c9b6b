"""Rights of callers. Deny by default: each handler of a verb names the right that it needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from catena.core.errors import NotAllowedError
from catena.master.requests.once import UNKEYED, Once


class Right(StrEnum):
    """A right that a verb needs."""

    run_jobs = "jobs.run"  #: equivalent to root on the targeted minions
    read_jobs = "jobs.read"
    read_events = "events.read"
    send_events = "events.send"
    read_keys = "keys.read"
    decide_keys = "keys.decide"
    read_minions = "minions.read"
    call_runners = "runners.call"
    read_chains = "chains.read"
    change_chains = "chains.change"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, as authenticated by a front end."""

    name: str
    rights: Collection[Right]
    #: The key of the request that is being answered.
    once: Once = UNKEYED

    def need(self, right: Right) -> None:
        """Raise NotAllowedError unless the caller has *right*."""
        if right not in self.rights:
            raise NotAllowedError(f"{self.name} lacks the right {right.value}")


ADMINISTRATOR = frozenset(Right)
