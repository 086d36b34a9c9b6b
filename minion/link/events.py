"""Events of this host's processes: kept, answered, and told to the master."""

from __future__ import annotations

from functools import partial
from typing import Callable, List, Optional, Set

from catena.core import failpoints
from catena.minion.link.event_log import EventLog
from catena.minion.link.outbox import Outbox
from catena.minion.link.pace import Pace
from catena.minion.log import Log
from catena.transport import wire
from catena.transport.messages import EventFired

#: While the master has not answered for what it was told, so many more events, or for so long, are
#: told together: each alone would cost it a commit, and everybody a dozen switches of processes.
TOGETHER = 16
TOGETHER_SECONDS = 0.005

#: Told when an event is kept (None), or why it is not.
Told = Callable[[Optional[Exception]], None]
#: Sends an event to the master; False: not now.
Send = Callable[[wire.Packed], bool]


class Events:
    """The way of events, from who fires them to the master.

    Args:
        kept: where they wait.
        outbox: when the master is told of what.
        send: see Send.
        log: the agent's log.
    """

    def __init__(self, kept: EventLog, outbox: Outbox, send: Send, log: Log) -> None:
        self._kept, self._outbox, self._send, self._log = kept, outbox, send, log
        #: Who waits for the next `keep`.
        self._waiting: List[Told] = []
        #: Kept, and soon to be told; until when at the latest.
        self._soon: List[str] = []
        self._soon_due = 0.0
        #: What the outbox has.
        self._open: Set[str] = set()
        self._pace = Pace()
        self._connected = False

    def recover(self) -> None:
        """Take up what an earlier agent process kept."""
        if self._kept.damaged:
            text = f"{self._kept.damaged} of the kept events were damaged by a power cut"
            self._log.error(
                f"{text}, or by the disk: they are lost if their senders heard of them"
            )
        self._soon = self._kept.keys()

    def connected(self, per_second: float, now: float) -> None:
        """Tell the master, but no more than it takes; what is more waits for its turn."""
        self._pace.set(per_second, now)
        # The outbox says them anew.
        self._pace.charge(len(self._open))
        self._connected, self._soon_due = True, now

    def lost(self) -> None:
        """Hold back what is not in the outbox: together it would be more than the master takes."""
        self._connected = False

    def fired(self, event: EventFired, body: wire.Buffer, told: Told) -> None:
        """Keep an event at the next `keep`, which calls *told*.

        Args:
            event: what was fired.
            body: the same as it travels; b"" where it did not come so.
            told: see Told.

        Raises:
            CatenaError: it can't be an event of ours; *told* is not called.
        """
        self._kept.add(event, body)
        self._waiting.append(told)

    def stored(self, event_id: str, now: float) -> None:
        """The master has an event.

        Raises:
            OSError: it could not be forgotten.
        """
        self._open.discard(event_id)
        self._outbox.acked(_key(event_id))
        self._kept.remove(event_id, now)

    def keep(self, now: float) -> None:
        """Keep what was fired since the last call, all with one sync, and answer."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        fault: Optional[OSError] = None
        try:
            kept = self._kept.commit()
        except OSError as error:
            fault = error
            self._log.error(f"{len(waiting)} events can't be kept: {error}")
        else:
            failpoints.hit("agent.outbox.event")
            if kept and not self._soon:
                self._soon_due = now + TOGETHER_SECONDS
            self._soon += kept
        for told in waiting:
            told(fault)

    def service(self, now: float) -> None:
        """Tell what is kept, and note what is stored, when it is time."""
        if self._is_time(now):
            self._tell(self._pace.take(len(self._soon), now))
            # What is left waits for the next that may be told together.
            self._soon_due = self._pace.due(min(len(self._soon), TOGETHER))
        if self._kept.next_due() is None:
            return
        try:
            self._kept.settle(now)
        except OSError as error:
            self._log.error(f"what the master has stored of events can't be noted: {error}")

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to do; None: nothing."""
        if self._waiting:
            return 0.0
        due = self._kept.next_due()
        if not self._soon or not self._connected:
            return due
        return self._soon_due if due is None else min(due, self._soon_due)

    def close(self, now: float) -> None:
        """Let go of everything."""
        self._kept.close(now)

    def _is_time(self, now: float) -> bool:
        if not self._soon or not self._connected:
            return False
        return not self._open or len(self._soon) >= TOGETHER or now >= self._soon_due

    def _tell(self, count: int) -> None:
        for event_id in self._soon[:count]:
            self._open.add(event_id)
            self._outbox.add(_key(event_id), partial(self._say, event_id))
        del self._soon[:count]

    def _say(self, event_id: str) -> bool:
        event = self._kept.read(event_id)
        if event is not None:
            return self._send(event)
        self._log.error(f"event {event_id} is damaged: it can't be told to the master")
        self.stored(event_id, 0.0)
        return True


def _key(event_id: str) -> str:
    return f"event-{event_id}"
