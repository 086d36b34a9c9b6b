"""A job's events on their way to the daemon, several at once.

The daemon keeps all that has come by its next turn with one sync. Who waited for each event in
turn would wait for as many syncs, and for two switches of processes with each. So a job that
fires one event after the other hands them on; before its outcome is kept, or another function of
it acts, it hears that all of them are kept (`settle`), or why not.
"""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional

from catena.core.errors import CatenaError, UnreachableError
from catena.transport.failures import error_of
from catena.transport.local import LocalClient
from catena.transport.messages import EventFired, Failure

#: Events without an answer at most.
WINDOW = 64
#: How long an answer may take.
SECONDS = 60.0

#: Hands over one event and waits until it is kept, also for a daemon that is being restarted.
Insist = Callable[[EventFired], object]


class EventSender:
    """Events that the daemon has not answered yet.

    Args:
        client: the connection; whoever asks something else over it calls `drain` before.
        insist: see Insist. An event that comes twice is kept once: it goes by its id.
    """

    def __init__(self, client: LocalClient, insist: Insist) -> None:
        self._client, self._insist = client, insist
        self._open: Dict[bytes, EventFired] = {}
        self._fault: Optional[CatenaError] = None
        #: Process that sent them; a copy of it (fork) has no part in them.
        self._owner = 0

    def send(self, event: EventFired) -> None:
        """Hand an event over, without waiting until it is kept.

        Raises:
            CatenaError: this one or an earlier one can't be kept.
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
        """Wait for the answers; what went wrong is kept for `settle`."""
        if self._owner == os.getpid():
            while self._open:
                self._hear()

    def settle(self) -> None:
        """Return when everything that was sent is kept.

        Raises:
            CatenaError: something can't be kept: the first reason.
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
            # Said to the connection as a whole.
            self._forgotten()
            self._note(error)
            return
        del self._open[msg_id]
        if isinstance(answer, Failure):
            self._note(error_of(answer))

    def _forgotten(self) -> List[EventFired]:
        """Return the events that wait on a connection that is gone; they wait no more."""
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
                    return  # it was waited for long enough

    def _note(self, error: CatenaError) -> None:
        self._fault = self._fault or error

    def _raise(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
