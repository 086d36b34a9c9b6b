"""Framed requests to the program on a host, and its replies."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from catena.core.errors import LimitError, PeerError
from catena.core.framing import NEED, NOISE_LIMIT, READY, Framer, marker
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError, refused
from catena.ssh.connect.link import ProgramReply
from catena.ssh.connect.session import RemoteCommand

DEFAULT_SECONDS = 60.0
#: Prefix of the line in which catena's program reports why it can't start (`ssh.push.bootstrap`).
_REFUSAL = "catena: "


class FramedChannel:
    """A `Channel` over one session; made by `start`.

    Args:
        session: the running program, ready.
        framer: of this run.
        rest: bytes received after the ready mark.
        host: id of the target.
    """

    def __init__(self, session: RemoteCommand, framer: Framer, rest: bytes, host: str) -> None:
        self._session = session
        self._framer = framer
        self._rest = rest
        self._host = host
        self._lock = threading.Lock()
        self._closed = False

    def request(
        self, message: Mapping[str, Any], blob: bytes = b"", *, timeout: float | None = None
    ) -> ProgramReply:
        """Send a request and return the reply (see `ssh.connect.link.ProgramChannel`)."""
        deadline = time.monotonic() + (DEFAULT_SECONDS if timeout is None else timeout)
        with self._lock:
            if self._closed:
                raise ChannelLostError(
                    self._host, PushPhase.run, "the channel is closed", waits=True
                )
            frame = self._framer.encode(message, blob)
            try:
                self._session.send(frame, deadline)
                return self._answer(deadline)
            except BaseException:
                # A late reply would be mistaken for the reply to the next request.
                self._closed = True
                self._session.close()
                raise

    def _answer(self, deadline: float) -> ProgramReply:
        data, self._rest = self._rest, b""
        while True:
            try:
                answers = list(self._framer.feed(data))
            except (PeerError, LimitError) as error:
                raise type(error)(f"{self._host}: {error}") from None
            if len(answers) > 1:
                raise PeerError(f"{self._host}: {len(answers)} answers to one question")
            if answers:
                return ProgramReply(*answers[0])
            data = _piece(self._session, deadline, self._host, PushPhase.run)

    def close(self) -> None:
        """Close the channel. Never raises."""
        self._closed = True
        self._session.close()


def start(
    session: RemoteCommand, host: str, supply: Callable[[], bytes] | None, timeout: float
) -> FramedChannel:
    """Return the channel to a newly started program (see `ssh.connect.link.Connection`).

    Raises:
        SshError: the program ended, sent nothing, or requested data that does not exist.
    """
    deadline = time.monotonic() + timeout
    nonce = secrets.token_hex(32)
    try:
        if session.may_ask:
            # sudo would read earlier input as the password.
            session.await_begin(deadline)
        # If the program no longer reads, its output is the better error message.
        session.send(f"{nonce}\n".encode("ascii"), deadline)
        rest = _ready(session, host, nonce, supply, deadline)
    except BaseException:
        session.close()
        raise
    return FramedChannel(session, Framer(nonce, master=True), rest, host)


def _ready(
    session: RemoteCommand,
    host: str,
    nonce: str,
    supply: Callable[[], bytes] | None,
    deadline: float,
) -> bytes:
    """Send the program what it requests; return the bytes after its ready mark."""
    seen = bytearray()
    need, ready = marker(NEED, nonce), marker(READY, nonce)
    while True:
        seen += _piece(session, deadline, host, PushPhase.session)
        at = seen.find(need)
        if at >= 0:
            if supply is None:
                raise SshError(
                    host, PushPhase.install, "the program asks for what it was not promised"
                )
            data, supply = supply(), None
            session.send(b"%d\n%b" % (len(data), data), deadline)
            del seen[: at + len(need)]
        at = seen.find(ready)
        if at >= 0:
            return bytes(seen[at + len(ready) :])
        if len(seen) > NOISE_LIMIT:
            raise SshError(
                host, PushPhase.session, "the program prints without end and is not ready"
            )


def _piece(session: RemoteCommand, deadline: float, host: str, phase: PushPhase) -> bytes:
    """Return the next bytes of stdout; store stderr for messages."""
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
