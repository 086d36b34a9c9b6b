"""Interfaces of a host for a push: a connection that runs commands, a channel to the program.

`ssh.connect.connection` and `ssh.connect.channel` implement them over paramiko, tests implement
them in memory. Data from a host is untrusted: the reader checks its grammar and limits.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Protocol, Sequence

from catena.core.frozen import dataclass
from catena.ssh.connect.errors import PushPhase
from catena.ssh.connect.target import SshTarget


class Completed(NamedTuple):
    """A command that ran to its end on the host."""

    #: Exit code; 128 + number of the signal that ended it, 255 if the host sent none.
    code: int
    stdout: bytes
    stderr: bytes
    #: Whether stdout or stderr was truncated at the limit.
    cut: bool = False


class ProgramReply(NamedTuple):
    """One reply of the program on the host."""

    message: Dict[str, Any]
    #: Bytes attached to the reply (a file's content, a large result), b"" for none.
    blob: bytes = b""


@dataclass(frozen=True)
class Probed:
    """Facts about a host, reported by its own shell and Python."""

    #: Absolute path of an interpreter of at least 3.9.
    python: str
    #: (major, minor, micro).
    version: tuple[int, int, int]
    #: Effective user id of commands on the host (after sudo).
    euid: int
    home: str
    #: Absolute path of the user's folder for catena: thin_dir, ~/.cache/catena, or a private
    #: folder
    #: elsewhere if home is not writable. The folder may not exist yet.
    room: str
    #: Boot id of the host, "" if it has none.
    boot_id: str
    #: Notes about unusual facts, one sentence each (home is read-only, /tmp is noexec).
    notes: tuple[str, ...] = ()


class ProgramChannel(Protocol):
    """Requests to one program on the host and its replies, in frames of `core.framing`.

    Only one request is in progress; calls from several threads wait for each other.
    """

    def request(
        self, message: Mapping[str, Any], blob: bytes = b"", *, timeout: Optional[float] = None
    ) -> ProgramReply:
        """Send *message* with *blob* and return the reply.

        Args:
            message: plain JSON data.
            blob: attached raw bytes; b"" for none.
            timeout: seconds until the whole reply must have arrived; None: the default (60).

        Raises:
            ChannelLostError: the connection or the program ended; the reply is unknown.
            SshError: no reply in time (the channel is closed then).
            PeerError: the data is no valid reply (the channel is closed then).
            LimitError: the request or the reply exceeds the limit of a frame.
        """

    def close(self) -> None:
        """Close the channel; the program reads end of file. Never raises."""


class Connection(Protocol):
    """A connected, authenticated host with a checked host key."""

    @property
    def target(self) -> SshTarget:
        """The host in the roster."""

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
        """Run a command and wait for its end; no shell interprets *argv*.

        Args:
            argv: the program and its arguments, at most 96 KiB in total.
            stdin: the complete input.
            timeout: seconds until it must have ended.
            limit: maximum bytes of stdout and of stderr; more are read and dropped.
            phase: the phase in errors.
            sudo: whether the roster's sudo applies.

        Raises:
            ChannelLostError, SshError: the connection ended, or the time-out has passed.
        """

    def probe(self) -> Probed:
        """Return facts about the host; the result is cached.

        Raises:
            SshError: no Python of at least 3.9, or no writable folder; the text lists the
                findings.
        """

    def open_channel(
        self,
        argv: Sequence[str],
        *,
        supply: Optional[Callable[[], bytes]] = None,
        timeout: float = 60.0,
    ) -> ProgramChannel:
        """Start a program (with sudo if the roster says so) and return the channel to it.

        The program's side (see `core.framing` for its helpers):
          1. It reads one line of its stdin: the nonce of this run, 64 hex digits.
          2. It may print the line `catena-need NONCE` once. The master then sends the length of
             *supply*'s bytes in decimal, a newline, and the bytes.
          3. It prints the line `catena-ready NONCE`. Earlier text on stdout (banner, .bashrc) is
             skipped, at most 256 KiB. From then on stdin and stdout carry only frames. The
             program keeps that stdout private (dup, close-on-exec), so that no child writes to it.
          4. It ends when its stdin ends.

        Args:
            argv: the program and its arguments.
            supply: returns the bytes for a program that requests them; None: a request is an
                error.
            timeout: seconds until the program is ready.

        Raises:
            SshError: phase session or install: the program ended or sent nothing; the text has
                the last line of its stderr.
        """

    def close(self) -> None:
        """Close the connection and all its channels. Never raises."""


#: Opens a connection to a target; called again after a connection was lost.
Connector = Callable[[SshTarget], Connection]

#: Receives each step of a push for a progress display: (phase, one short text).
Watch = Callable[[PushPhase, str], None]
