"""A connected host: commands, the probe, and the channel to catena's program."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from catena.ssh.connect.channel import FramedChannel, start
from catena.ssh.connect.client_config import ClientFiles, route
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.link import Completed, Probed
from catena.ssh.connect.probe import probe
from catena.ssh.connect.session import RemoteCommand
from catena.ssh.connect.target import SshTarget
from catena.ssh.connect.transport import CutOffError, JumpTransports, connect

DEFAULT_SECONDS = 60.0
#: Maximum number of attempts when a host closes the connection before its greeting.
CUT_OFF_TRIES = 4
#: Bytes of input that fit into any server's window; more is written by a separate thread.
_SMALL = 16 * 1024


class SshConnection:
    """A `Connection` over paramiko (see `ssh.connect.link.Connection`).

    Args:
        target: the host.
        line: the authenticated connection.
        seconds: time limit for the start of a command, and for the probe.
    """

    def __init__(
        self, target: SshTarget, line: JumpTransports, seconds: float = DEFAULT_SECONDS
    ) -> None:
        self._target = target
        self._line = line
        self._seconds = seconds
        self._probed: Probed | None = None

    @property
    def target(self) -> SshTarget:
        """The host in the roster."""
        return self._target

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = 60.0,
        limit: int = 1024 * 1024,
        phase: PushPhase = PushPhase.session,
        sudo: bool = True,
    ) -> Completed:
        """Run a command and wait for its end."""
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
        """Return the result of the probe, which runs once."""
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
        return start(
            self._session(argv, PushPhase.session, True), self._target.id, supply, timeout
        )

    def close(self) -> None:
        """Close the connection. Never raises."""
        self._line.close()

    def _session(self, argv: Sequence[str], phase: PushPhase, sudo: bool) -> RemoteCommand:
        return RemoteCommand(
            self._line.transport,
            self._target,
            list(argv),
            phase=phase,
            sudo=sudo,
            seconds=self._seconds,
        )


def open_connection(
    target: SshTarget, files: ClientFiles, seconds: float = DEFAULT_SECONDS
) -> SshConnection:
    """Connect to *target*, check its host key and log in.

    Args:
        target: the host.
        files: of the user that connects.
        seconds: time limit of each step, if the target has none.

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
            # sshd drops some of many simultaneous logins (MaxStartups), in particular on a jump
            # host.
            left -= 1
            if not left:
                raise
            time.sleep(random.uniform(0.2, 1.0))
        else:
            return SshConnection(target, line, bound)


def _feed(session: RemoteCommand, data: bytes, deadline: float) -> None:
    if len(data) <= _SMALL:
        _write(session, data, deadline)
    else:
        # The command may write while it reads; without concurrent I/O both sides could block.
        args = (session, data, deadline)
        threading.Thread(target=_write_beside, args=args, daemon=True).start()


def _write_beside(session: RemoteCommand, data: bytes, deadline: float) -> None:
    try:
        _write(session, data, deadline)
    except SshError:
        # The reader of the command's output has the same deadline and reports it.
        return


def _write(session: RemoteCommand, data: bytes, deadline: float) -> None:
    # If a command does not read all of its input, its exit code tells the result.
    if not data or session.send(data, deadline):
        session.end_input()


def _collect(session: RemoteCommand, deadline: float, limit: int) -> Completed:
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
