"""The daemon's session with its master: trust, Hello, Welcome, refusals; or no master at all.

`transport.agent.AgentLink` makes and keeps the connection. This module sends the first message on
it and handles a Refused.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, List, Optional, Protocol

import catena
from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.core.files import read_limited, write_durable
from catena.core.frozen import replace
from catena.minion.link.relay import ANSWERS
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.minion.start.blob import StartData
from catena.transport import wire
from catena.transport.agent import (
    AgentLink,
    Connected,
    EnrolState,
    LinkConfig,
    LinkEvent,
    Lost,
    Noted,
    Received,
    Rotated,
    Trusted,
)
from catena.transport.keys import KeyPair, load_or_create, public_file
from catena.transport.messages import Envelope, Goodbye, Hello, Refused, Welcome

#: Seconds after which an unanswered Hello is resent.
HELLO_SECONDS = 15.0
#: Minimum pause in seconds after a Refused, whatever the master requests.
REFUSED_SECONDS = 5.0
#: Pause in seconds after the key was revoked: an operator who deletes it often accepts it at once.
REVOKED_SECONDS = 1.0
#: A larger file in the place of the public key is not read.
_PUBLIC_BYTES = 64 * 1024 * 1024


def socket_link(start: StartData, loop: Loop, now: float) -> AgentLink:
    """Return a link with real sockets that *loop* watches."""
    config = replace(link_config(start), unread=ANSWERS)
    pair = load_or_create(start.settings.pki_dir)
    _check_public(start, pair)
    link = AgentLink(config, pair, now)
    link.register(loop.poller)
    return link


def _check_public(start: StartData, pair: KeyPair) -> None:
    """Report a public key file that does not match the secret key, and rewrite it."""
    path = Path(start.settings.pki_dir) / "curve.pub"
    try:
        data = read_limited(path, _PUBLIC_BYTES)
    except (OSError, CatenaError):
        return
    if data == public_file(pair):
        return
    from catena.runtime import damage

    lost = "which one is right: if the master shows this minion as a new key, curve.key is damaged"
    found = damage.Damage(str(path), "it does not belong to curve.key", "", lost)
    damage.report(start.cache_dir, found, data)
    with contextlib.suppress(OSError):  # a full disk: the file is for people only
        write_durable(path, public_file(pair), 0o644)


def link_config(start: StartData) -> LinkConfig:
    """Return the link's configuration from the settings."""
    settings = start.settings
    return LinkConfig(
        id=start.id,
        machine_id=start.machine_id,
        version=catena.__version__,
        master=settings.master,
        pki_dir=settings.pki_dir,
        port=settings.master_port,
        master_finger=settings.master_finger,
        enrol_token=settings.enrol_token,
        ping_interval_seconds=settings.ping_interval_seconds,
        recon_max_seconds=settings.recon_max_seconds,
    )


class Hears(Protocol):
    """Notified of the master's messages."""

    def on_welcome(self, welcome: Welcome, now: float) -> None:
        """Process the Welcome: jobs follow."""

    def on_message(self, envelope: Envelope, now: float) -> None:
        """Process any other message."""

    def on_lost(self, socket: str) -> None:
        """Process the end of a connection; everything in transit is lost."""


class Link(Protocol):
    """The part of `transport.agent.AgentLink` that is used here."""

    def service(self, now: float) -> List[LinkEvent]:
        """Read what arrived and do what is due; return the events."""

    def send(
        self, socket_name: str, message: Any, reply_to: bytes = ..., msg_id: Optional[bytes] = ...
    ) -> bool:
        """Queue a message; return False if not connected or the queue is full."""

    def timeout(self, now: float) -> int:
        """Return the maximum sleep of the loop in milliseconds."""

    def close(self) -> None:
        """Close the connection."""


#: Makes a link; *now* is monotonic seconds.
OpenLink = Callable[[float], Link]


class MasterLink:
    """The session with a master, with a new link after each refusal.

    Args:
        open_link: makes a link.
        hello: makes the Hello; its argument says whether no Hello was accepted before.
        hears: see Hears.
        clock: the time.
        log: the agent's log.
        start: this minion's identity and the master's address, if there is one.
    """

    def __init__(
        self,
        open_link: OpenLink,
        hello: Callable[[bool], Hello],
        hears: Hears,
        clock: Clock,
        log: Log,
        start: StartData,
    ) -> None:
        self._open_link, self._make_hello, self._hears = open_link, hello, hears
        self._clock, self._log, self._start = clock, log, start
        self._link: Optional[Link] = None
        self._welcomed = False
        self._first = True
        self._again: Optional[float] = None
        self._hello_due: Optional[float] = None
        #: For display: "no master", "connecting", "pending", "connected", "refused: …".
        self.state = "no master"
        if start.settings.master:
            self._open(clock.monotonic())

    @property
    def connected(self) -> bool:
        """Return whether the master has sent a Welcome."""
        return self._welcomed

    def send(
        self,
        socket_name: str,
        message: Any,
        reply_to: bytes = wire.ZERO,
        msg_id: Optional[bytes] = None,
    ) -> bool:
        """Queue a message; return False before the Welcome or if the queue is full."""
        if self._link is None or not self._welcomed:
            return False
        return self._link.send(socket_name, message, reply_to, msg_id)

    def service(self, now: float) -> None:
        """Read what arrived and do what is due."""
        if self._again is not None and now >= self._again:
            self._again = None
            self._open(now)
        if self._link is None:
            return
        for event in self._link.service(now):
            self._handle(event, now)
            if self._link is None:
                return
        if self._hello_due is not None and now >= self._hello_due:
            self._say_hello(now)

    def timeout(self, now: float) -> int:
        """Return how long the loop may sleep, in milliseconds."""
        moments: List[float] = [moment for moment in (self._again, self._hello_due) if moment]
        mine = max(0.0, min(moments) - now) * 1000.0 if moments else 30_000.0
        return int(mine) if self._link is None else min(int(mine), self._link.timeout(now))

    def close(self, reason: str) -> None:
        """Send a Goodbye and close."""
        if self._link is not None:
            if self._welcomed:
                self._link.send("control", Goodbye(reason))
                self._link.service(self._clock.monotonic())
            self._link.close()
        self._link, self._welcomed = None, False

    def _open(self, now: float) -> None:
        self._link = self._open_link(now)
        self.state = "connecting"

    def _handle(self, event: LinkEvent, now: float) -> None:
        if isinstance(event, Received):
            self._received(event, now)
        elif isinstance(event, Connected):
            self._say_hello(now)
        elif isinstance(event, Lost):
            self._lost(event)
        elif isinstance(event, Trusted):
            how = "on first use" if event.first_use else "by its fingerprint"
            self._log.info(f"the master's key is trusted {how}: {event.fingerprint}")
        elif isinstance(event, EnrolState):
            self._judged(event)
        elif isinstance(event, Noted):
            (self._log.info if event.level == "info" else self._log.warning)(event.text)
        elif isinstance(event, Rotated):
            self._log.info(f"this minion's key was replaced; the new one is {event.fingerprint}")

    def _judged(self, event: EnrolState) -> None:
        self.state = event.state
        if event.state == "accepted":
            self._log.info("the master has accepted our key")
        elif event.state == "untrusted":
            self._log.error(f"the master is not trusted: {event.reason}")
        else:
            self._log.warning(f"the master says our key is {event.state}: {event.reason}")

    def _received(self, event: Received, now: float) -> None:
        message = event.envelope.message
        if isinstance(message, Welcome):
            self._hello_due = None
            if not self._welcomed:
                self._welcomed, self._first = True, False
                self.state = "connected"
                self._log.info(f"connected to the master, version {message.master_version}")
                self._hears.on_welcome(message, now)
        elif isinstance(message, Refused):
            self._refused(message, now)
        elif isinstance(message, Goodbye):
            self._log.info(f"the master stops: {message.reason}")
        else:
            self._hears.on_message(event.envelope, now)

    def _say_hello(self, now: float) -> None:
        assert self._link is not None
        self._hello_due = now + HELLO_SECONDS
        try:
            self._link.send("control", self._make_hello(self._first))
        except CatenaError as error:
            self._log.error(f"the Hello cannot be sent: {error}")

    def _lost(self, event: Lost) -> None:
        if event.socket == "control":
            self._log.warning(f"the connection to the master is lost: {event.reason}")
            self._welcomed, self._hello_due = False, None
            self.state = "connecting"
        self._hears.on_lost(event.socket)

    def _refused(self, message: Refused, now: float) -> None:
        self.state = f"refused: {message.code}"
        self._log.error(f"the master refuses this minion ({message.code}): {message.reason}")
        if self._link is not None:
            self._link.close()
        was = self._welcomed
        self._link, self._welcomed, self._hello_due = None, False, None
        shortest = REVOKED_SECONDS if message.code == "revoked" else REFUSED_SECONDS
        self._again = now + max(shortest, message.retry_seconds)
        if was:
            self._hears.on_lost("control")
