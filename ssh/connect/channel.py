"""Question and answer with the program on a host, in frames."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from catena.core.errors import LimitError, PeerError
from catena.core.framing import NEED, NOISE_LIMIT, READY, Framer, marker
from catena.ssh.connect.errors import ChannelLostError, Phase, SshError, refused
from catena.ssh.connect.link import Reply
from catena.ssh.connect.session import Session

DEFAULT_SECONDS = 60.0
#: Begins the line in which our program says why it does not begin (`ssh.push.bootstrap`).
_REFUSAL = "catena: "


class FramedChannel:
    """A `Channel` over one session; made by `start`.

    Args:
        session: the running program, ready.
        framer: of this run.
        rest: what came behind the ready mark.
        host: id of the target.
    """

    def __init__(self, session: Session, framer: Framer, rest: bytes, host: str) -> None:
        self._session = session
        self._framer = framer
        self._rest = rest
        self._host = host
        self._lock = threading.Lock()
        self._closed = False

    def request(
        self, message: Mapping[str, Any], blob: bytes = b"", *, timeout: float | None = None
    ) -> Reply:
        """Send a question, return the answer (see `ssh.connect.link.Channel`)."""
        deadline = time.monotonic() + (DEFAULT_SECONDS if timeout is None else timeout)
        with self._lock:
            if self._closed:
                raise ChannelLostError(self._host, Phase.run, "the channel is closed", waits=True)
            frame = self._framer.encode(message, blob)
            try:
                self._session.send(frame, deadline)
                return self._answer(deadline)
            except BaseException:
                # A late answer would be taken for the next question's.
                self._closed = True
                self._session.close()
                raise

    def _answer(self, deadline: float) -> Reply:
        data, self._rest = self._rest, b""
        while True:
            try:
                answers = list(self._framer.feed(data))
            except (PeerError, LimitError) as error:
                raise type(error)(f"{self._host}: {error}") from None
            if len(answers) > 1:
                raise PeerError(f"{self._host}: {len(answers)} answers to one question")
            if answers:
                return Reply(*answers[0])
            data = _piece(self._session, deadline, self._host, Phase.run)

    def close(self) -> None:
        """End the channel. Never raises."""
        self._closed = True
        self._session.close()


def start(
    session: Session, host: str, supply: Callable[[], bytes] | None, timeout: float
) -> FramedChannel:
    """Return the channel to a program that was just started (see `ssh.connect.link.Connection`).

    Raises:
        SshError: it ended, was silent, or asked for what there is not.
    """
    deadline = time.monotonic() + timeout
    nonce = secrets.token_hex(32)
    try:
        if session.may_ask:
            # What we sent before would be taken for the password.
            session.await_begin(deadline)
        # Where it takes no input any more, what it says instead is the better error.
        session.send(f"{nonce}\n".encode("ascii"), deadline)
        rest = _ready(session, host, nonce, supply, deadline)
    except BaseException:
        session.close()
        raise
    return FramedChannel(session, Framer(nonce, master=True), rest, host)


def _ready(
    session: Session,
    host: str,
    nonce: str,
    supply: Callable[[], bytes] | None,
    deadline: float,
) -> bytes:
    """Return what follows the ready mark; give the program what it needs before."""
    seen = bytearray()
    need, ready = marker(NEED, nonce), marker(READY, nonce)
    while True:
        seen += _piece(session, deadline, host, Phase.session)
        at = seen.find(need)
        if at >= 0:
            if supply is None:
                raise SshError(
                    host, Phase.install, "the program asks for what it was not promised"
                )
            data, supply = supply(), None
            session.send(b"%d\n%b" % (len(data), data), deadline)
            del seen[: at + len(need)]
        at = seen.find(ready)
        if at >= 0:
            return bytes(seen[at + len(ready) :])
        if len(seen) > NOISE_LIMIT:
            raise SshError(host, Phase.session, "the program prints without end and is not ready")


def _piece(session: Session, deadline: float, host: str, phase: Phase) -> bytes:
    """Return the next bytes of stdout; stderr is kept for messages."""
    while True:
        out, err = session.receive(deadline)
        if out:
            return out
        if not err:
            code = session.exit_code()
            said = session.tail()
            if said.startswith(_REFUSAL):
                raise refused(host, said.removeprefix(_REFUSAL))
            what = f"the program ended with code {code}" + (f": {said}" if said else "")
            raise ChannelLostError(host, phase, what, waits=True)
