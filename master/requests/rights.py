"""Who may ask what. Deny by default: a verb without a right in the table can't be asked."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from catena.core.errors import NotAllowedError
from catena.master.requests.once import UNKEYED, Once
from catena.transport.local import LocalPeer


class Right(StrEnum):
    """What a verb needs."""

    run_jobs = "jobs.run"  #: as good as root on the targeted minions
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
    """Who asks, as the channel proves it."""

    name: str
    rights: Collection[Right]
    #: The key of the request that is being answered.
    once: Once = UNKEYED

    def need(self, right: Right) -> None:
        """Raise NotAllowedError unless the caller has *right*."""
        if right not in self.rights:
            raise NotAllowedError(f"{self.name} lacks the right {right.value}")


ADMINISTRATOR = frozenset(Right)
#: The reactor acts for the administrator who wrote its rules.
REACTOR = Caller("Reactor", ADMINISTRATOR)


class LocalUsers:
    """Users of the unix socket: root, the master's own user, and those of `cli_users`."""

    def __init__(self, cli_users: Collection[str]) -> None:
        self._names = frozenset(cli_users)

    def allows(self, peer: LocalPeer) -> bool:
        """Return whether *peer* may ask at all."""
        return peer.uid in (0, os.geteuid()) or user_name(peer.uid) in self._names

    def caller(self, peer: LocalPeer) -> Caller:
        """Return who *peer* is and what it may do (all of it, or nothing)."""
        rights = ADMINISTRATOR if self.allows(peer) else frozenset()
        return Caller(user_name(peer.uid), rights)


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
