"""Events of this host's processes: stored, answered, and sent to the master."""

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

#: While the master has unanswered events, further ones are sent together once there are this many
#: or after the time below. A separate message for each would cost a commit and many task switches.
TOGETHER = 16
TOGETHER_SECONDS = 0.005

#: Called with None when an event is stored, or with the reason why it is not.
Told = Callable[[Optional[Exception]], None]
#: Sends an event to the master; returns False if that is not possible now.
Send = Callable[[wire.Packed], bool]


class Events:
    """The path of events from their sender to the master.

    Args:
        kept: stores them.
        outbox: decides when each is sent.
        send: see Send.
        log: the agent's log.
    """

    def __init__(self, kept: EventLog, outbox: Outbox, send: Send, log: Log) -> None:
        self._kept, self._outbox, self._send, self._log = kept, outbox, send, log
        #: Callbacks for the next `keep`.
        self._waiting: List[Told] = []
        #: Stored events to be sent soon, and below the latest time for that.
        self._soon: List[str] = []
        self._soon_due = 0.0
        #: Events that are in the outbox.
        self._open: Set[str] = set()
        self._pace = Pace()
        self._connected = False

    def recover(self) -> None:
        """Load the events that an earlier agent process stored."""
        if self._kept.damaged:
            text = f"{self._kept.damaged} of the stored events were damaged by a power failure"
            self._log.error(
                f"{text}, or by the disk: events that were confirmed to their senders are lost"
            )
        self._soon = self._kept.keys()

    def connected(self, per_second: float, now: float) -> None:
        """Send events at the rate that the master accepts; the rest waits."""
        self._pace.set(per_second, now)
        # The outbox sends these again.
        self._pace.charge(len(self._open))
        self._connected, self._soon_due = True, now

    def lost(self) -> None:
        """Stop adding events to the outbox; a new connection would exceed the master's rate."""
        self._connected = False

    def fired(self, event: EventFired, body: wire.Buffer, told: Told) -> None:
        """Store an event at the next `keep`, which calls *told*.

        Args:
            event: the event.
            body: its encoded body; b"" if the caller does not have it.
            told: see Told.

        Raises:
            CatenaError: the event is not acceptable; *told* is not called.
        """
        self._kept.add(event, body)
        self._waiting.append(told)

    def stored(self, event_id: str, now: float) -> None:
        """Remove an event that the master has stored.

        Raises:
            OSError: it could not be removed.
        """
        self._open.discard(event_id)
        self._outbox.acked(_key(event_id))
        self._kept.remove(event_id, now)

    def keep(self, now: float) -> None:
        """Store what was fired since the last call, with one sync, and notify the senders."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        fault: Optional[OSError] = None
        try:
            kept = self._kept.commit()
        except OSError as error:
            fault = error
            self._log.error(f"{len(waiting)} events cannot be stored: {error}")
        else:
            failpoints.hit("agent.outbox.event")
            if kept and not self._soon:
                self._soon_due = now + TOGETHER_SECONDS
            self._soon += kept
        for told in waiting:
            told(fault)

    def service(self, now: float) -> None:
        """Send stored events, and record which the master has stored, when it is time."""
        if self._is_time(now):
            self._tell(self._pace.take(len(self._soon), now))
            # The rest waits for the next group.
            self._soon_due = self._pace.due(min(len(self._soon), TOGETHER))
        if self._kept.next_due() is None:
            return
        try:
            self._kept.settle(now)
        except OSError as error:
            self._log.error(f"cannot record which events the master has stored: {error}")

    def next_due(self) -> Optional[float]:
        """Return when `service` next has something to do; None: nothing."""
        if self._waiting:
            return 0.0
        due = self._kept.next_due()
        if not self._soon or not self._connected:
            return due
        return self._soon_due if due is None else min(due, self._soon_due)

    def close(self, now: float) -> None:
        """Close the file of events."""
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
        self._log.error(f"event {event_id} is damaged and cannot be sent to the master")
        self.stored(event_id, 0.0)
        return True


def _key(event_id: str) -> str:
    return f"event-{event_id}"
