"""Watches starts of chains on minions that refuse to forget an ended chain.

- I18: while a minion's refusal is known, no start is sent to it before the start has waited for
  its time; it is sent soon after the refusal is gone or that time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catena.core.chain_calls import START
from catena.master.jobs.delivery import Delivery
from catena.master.store import chain_tables, tables
from catena.transport import wire
from catena.transport.messages import JobOrder
from tests.sim.master import CLEAN_WAIT_SECONDS

#: How much earlier than by the simulated clock the master may count a wait as over, seconds.
SLACK = 10.0
#: How long a master that works may take to send a start that nothing holds back, seconds.
PROMPT = 30.0
_REFUSED = (
    f"SELECT DISTINCT minion FROM {chain_tables.CHAIN_MINIONS.name}"
    " WHERE state = 'fenced' AND fence_at > 0"
)
_STARTS = (
    f"SELECT d.jid, d.minion, d.state FROM {tables.DELIVERIES.name} d"
    f" JOIN {tables.JOBS.name} j ON j.jid = d.jid WHERE j.fun = '{START}'"
)


class CleanWatch:
    """See the module.

    Args:
        world: the simulation run.
        ask: queries the master's store.
        wrong: reports a violation.
    """

    def __init__(
        self, world: Any, ask: Callable[..., list[Any]], wrong: Callable[[str, str], None]
    ) -> None:
        self._world = world
        self._ask = ask
        self._wrong = wrong
        #: Minions that refused at the last look.
        self._refused: frozenset[str] = frozenset()
        #: Start and minion -> when it was seen first, virtual seconds.
        self._ordered: dict[tuple[str, str], float] = {}
        #: Starts held back although nothing is in their way -> since when.
        self._free: dict[tuple[str, str], float] = {}
        self.waited = 0
        world.stage.network.on_send = self._at_send

    def look(self) -> None:
        """Note what the store says now; called from time to time."""
        now = self._world.stage.loop.now
        self._refused = self._refusing()
        held = set()
        for row in self._ask(_STARTS):
            key = row["jid"], row["minion"]
            self._ordered.setdefault(key, now)
            if row["state"] == Delivery.paused.value and not self._must_wait(*key, PROMPT):
                held.add(key)
        self._free = {key: self._free.get(key, now) for key in held}
        if not self._world.master.ready:
            self._free.clear()
        for (jid, minion), since in self._free.items():
            if now - since > PROMPT:
                self._wrong("I18", f"start {jid} is not sent to {minion}, and nothing hinders it")

    def _refusing(self) -> frozenset[str]:
        return frozenset(row["minion"] for row in self._ask(_REFUSED))

    def _must_wait(self, jid: str, minion: str, more: float) -> bool:
        """Return whether a start must be held back, by what was known at the last look."""
        since = self._ordered.get((jid, minion), self._world.stage.loop.now)
        waited = self._world.stage.loop.now - since
        return minion in self._refused and waited < CLEAN_WAIT_SECONDS + more

    def _at_send(self, minion: str, socket: str, frame: bytes) -> None:
        if socket != "control" or minion not in self._refused:
            return
        message = wire.unpack(frame, socket="control", receiver="minion").message
        if not isinstance(message, JobOrder) or message.spec.fun != START:
            return
        jid = message.spec.jid
        # The clocks of two hosts are compared after a move, and nobody knows how long it took.
        exact = self._world.master.hosts == 1 and not self._world.master.forgotten
        if exact and minion in self._refusing() and self._must_wait(jid, minion, -SLACK):
            self._wrong("I18", f"start {jid} is sent to {minion}, which refuses to clean")
