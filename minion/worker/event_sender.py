"""Sends a job's events to the daemon, several at once.

The daemon stores all events of one iteration of its loop with one sync. Waiting for each event in
turn would cost as many syncs, and two task switches for each. A job therefore sends events without
waiting. Before its outcome is stored, or another of its functions acts, `settle` waits until all
events are stored, or raises the reason why not.
"""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional

from catena.core.errors import CatenaError, UnreachableError
from catena.transport.failures import error_of
from catena.transport.local import LocalClient
from catena.transport.messages import EventFired, Failure

#: Maximum number of unanswered events.
WINDOW = 64
#: Seconds to wait for an answer.
SECONDS = 60.0

#: Sends one event and waits until it is stored, even while the daemon restarts.
Insist = Callable[[EventFired], object]


class EventSender:
    """Events that the daemon has not answered yet.

    Args:
        client: the connection; call `drain` before using it for another request.
        insist: see Insist. A repeated event is stored once, by its id.
    """

    def __init__(self, client: LocalClient, insist: Insist) -> None:
        self._client, self._insist = client, insist
        self._open: Dict[bytes, EventFired] = {}
        self._fault: Optional[CatenaError] = None
        #: Process that sent them; a forked copy must ignore them.
        self._owner = 0

    def send(self, event: EventFired) -> None:
        """Send an event without waiting until it is stored.

        Raises:
            CatenaError: this event or an earlier one cannot be stored.
        """
        if self._owner != os.getpid():
            self._owner, self._fault = os.getpid(), None
            self._open.clear()
        try:
            self._open[self._client.begin(event, SECONDS)] = event
        except UnreachableError:
            self._insist_on([*self._forgotten(), event])
        while len(self._open) >= WINDOW:
            self._hear()
        self._raise()

    def drain(self) -> None:
        """Wait for the answers; remember errors for `settle`."""
        if self._owner == os.getpid():
            while self._open:
                self._hear()

    def settle(self) -> None:
        """Return when all sent events are stored.

        Raises:
            CatenaError: an event cannot be stored; the first reason.
        """
        self.drain()
        self._raise()

    def _hear(self) -> None:
        try:
            msg_id, answer = self._client.answered(self._open.keys(), SECONDS)
        except UnreachableError:
            self._insist_on(self._forgotten())
            return
        except CatenaError as error:
            # The Failure is about the connection as a whole.
            self._forgotten()
            self._note(error)
            return
        del self._open[msg_id]
        if isinstance(answer, Failure):
            self._note(error_of(answer))

    def _forgotten(self) -> List[EventFired]:
        """Remove and return the events that wait on a connection that has ended."""
        events = list(self._open.values())
        self._open.clear()
        return events

    def _insist_on(self, events: List[EventFired]) -> None:
        for event in events:
            try:
                self._insist(event)
            except CatenaError as error:
                self._note(error)
                if isinstance(error, UnreachableError):
                    return  # the time limit has passed

    def _note(self, error: CatenaError) -> None:
        self._fault = self._fault or error

    def _raise(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
