"""One host, connected: commands, the probe, and the channel to our program."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from catena.ssh.connect.channel import FramedChannel, start
from catena.ssh.connect.client_config import ClientFiles, route
from catena.ssh.connect.errors import Phase, SshError
from catena.ssh.connect.link import Completed, Probed
from catena.ssh.connect.probe import probe
from catena.ssh.connect.session import Session
from catena.ssh.connect.target import Target
from catena.ssh.connect.transport import CutOffError, Line, connect

DEFAULT_SECONDS = 60.0
#: How often a host may close the connection before it greets.
CUT_OFF_TRIES = 4
#: Input that fits into the window of any server; more is written beside the reading.
_SMALL = 16 * 1024


class SshConnection:
    """A `Connection` over paramiko (see `ssh.connect.link.Connection`).

    Args:
        target: the host.
        line: to it, authenticated.
        seconds: for the host to take a command, and for the probe.
    """

    def __init__(self, target: Target, line: Line, seconds: float = DEFAULT_SECONDS) -> None:
        self._target = target
        self._line = line
        self._seconds = seconds
        self._probed: Probed | None = None

    @property
    def target(self) -> Target:
        """The host of the roster."""
        return self._target

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 60.0,
        limit: int = 1024 * 1024,
        phase: Phase = Phase.session,
        sudo: bool = True,
    ) -> Completed:
        """Run a command to its end."""
        deadline = time.monotonic() + timeout
        session = self._session(argv, phase, sudo)
        try:
            if session.may_ask:
                session.await_begin(deadline)
            _feed(session, stdin, deadline)
            done = _collect(session, deadline, limit)
        except BaseException:
            session.abort()
            raise
        session.close()
        return done

    def probe(self) -> Probed:
        """Return what the host has; asked once."""
        if self._probed is None:
            self._probed = probe(self, self._seconds)
        return self._probed

    def open_channel(
        self,
        argv: Sequence[str],
        *,
        supply: Callable[[], bytes] | None = None,
        timeout: float = 60.0,
    ) -> FramedChannel:
        """Start a program and return the channel to it."""
        return start(self._session(argv, Phase.session, True), self._target.id, supply, timeout)

    def close(self) -> None:
        """End the connection. Never raises."""
        self._line.close()

    def _session(self, argv: Sequence[str], phase: Phase, sudo: bool) -> Session:
        return Session(
            self._line.transport,
            self._target,
            list(argv),
            phase=phase,
            sudo=sudo,
            seconds=self._seconds,
        )


def open_connection(
    target: Target, files: ClientFiles, seconds: float = DEFAULT_SECONDS
) -> SshConnection:
    """Return a connection to *target*, its host key checked, logged in.

    Args:
        target: the host.
        files: of the user that connects.
        seconds: for each step, where the target does not say.

    Raises:
        SshError: phase connect, host key or authenticate.
        ConfigError: the SSH configuration can't be used.
    """
    bound = float(target.timeout_seconds or seconds)
    way = route(target, files)
    left = CUT_OFF_TRIES
    while True:
        try:
            line = connect(way, target.id, files.trust_command, bound)
        except CutOffError:
            # sshd, above all a jump host's, drops some of many logins at a time (MaxStartups).
            left -= 1
            if not left:
                raise
            time.sleep(random.uniform(0.2, 1.0))
        else:
            return SshConnection(target, line, bound)


def _feed(session: Session, data: bytes, deadline: float) -> None:
    if len(data) <= _SMALL:
        _write(session, data, deadline)
    else:
        # The command may answer while it reads; both at once, or both would wait.
        args = (session, data, deadline)
        threading.Thread(target=_write_beside, args=args, daemon=True).start()


def _write_beside(session: Session, data: bytes, deadline: float) -> None:
    try:
        _write(session, data, deadline)
    except SshError:
        # Too late: whoever reads the command's output has the same deadline, and says so.
        return


def _write(session: Session, data: bytes, deadline: float) -> None:
    # A command that does not want all of its input says by its code what it came to.
    if not data or session.send(data, deadline):
        session.end_input()


def _collect(session: Session, deadline: float, limit: int) -> Completed:
    kept, cut = (bytearray(), bytearray()), False
    while True:
        pieces = session.receive(deadline)
        if not any(pieces):
            break
        for buffer, piece in zip(kept, pieces, strict=True):
            room = limit - len(buffer)
            buffer += piece[:room]
            cut = cut or len(piece) > room
    return Completed(session.exit_code(), bytes(kept[0]), bytes(kept[1]), cut)
