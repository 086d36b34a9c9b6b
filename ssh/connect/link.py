"""What a push uses of a host: a connection that runs commands, and one channel to our program.

These are the contracts; `ssh.connect.connection` and `ssh.connect.channel` keep them over
paramiko, tests keep them in memory. Everything that comes back is the host's word: grammar and
limits are the reader's.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Protocol, Sequence

from catena.core.frozen import dataclass
from catena.ssh.connect.errors import Phase
from catena.ssh.connect.target import Target


class Completed(NamedTuple):
    """A command that ran to its end on the host."""

    #: Exit code; 128 + the signal's number where one ended it, 255 where the host did not say.
    code: int
    stdout: bytes
    stderr: bytes
    #: Whether stdout or stderr was cut at the limit.
    cut: bool = False


class Reply(NamedTuple):
    """One answer of the program on the host."""

    message: Dict[str, Any]
    #: Bytes that came with it (a file's content, a large result), b"" for none.
    blob: bytes = b""


@dataclass(frozen=True)
class Probed:
    """What a host has, as its own shell and Python told."""

    #: Absolute path of an interpreter of at least 3.9.
    python: str
    #: (major, minor, micro).
    version: tuple[int, int, int]
    #: Of the user that runs things there (after sudo).
    euid: int
    home: str
    #: A folder of that user for our things: thin_dir, ~/.cache/catena, or a private one elsewhere
    #: where home can't be written. Absolute; it need not exist yet.
    room: str
    #: The id of the running boot, "" where the host has none.
    boot_id: str
    #: What is unusual, one sentence each (home is read-only, /tmp is noexec).
    notes: tuple[str, ...] = ()


class Channel(Protocol):
    """Question and answer with one program on the host; frames of `core.framing`.

    One question at a time; calls from several threads wait for each other.
    """

    def request(
        self, message: Mapping[str, Any], blob: bytes = b"", *, timeout: Optional[float] = None
    ) -> Reply:
        """Send *message* with *blob* and return the answer.

        Args:
            message: plain JSON data.
            blob: raw bytes beside it; b"" for none.
            timeout: seconds until the whole answer must be here; None: the default (60).

        Raises:
            ChannelLostError: the connection or the program ended; the answer is unknown.
            SshError: no answer in time (the channel is closed then).
            PeerError: what came is no answer (the channel is closed then).
            LimitError: the question or the answer is larger than a frame may be.
        """

    def close(self) -> None:
        """End the channel; the program sees the end of its input. Never raises."""


class Connection(Protocol):
    """One host, connected and authenticated, its key checked."""

    @property
    def target(self) -> Target:
        """The host of the roster."""

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
        """Run a command to its end, with nothing of *argv* seen by a shell.

        Args:
            argv: the program and its arguments, at most 96 KiB in all.
            stdin: everything that it reads.
            timeout: seconds until it must have ended.
            limit: bytes kept of stdout and of stderr; more are read and dropped.
            phase: which errors name.
            sudo: whether the roster's sudo applies.

        Raises:
            ChannelLostError, SshError: the connection ended, or the time was up.
        """

    def probe(self) -> Probed:
        """Return what the host has; asked once, then kept.

        Raises:
            SshError: no Python of at least 3.9, nowhere to write; with what was found.
        """

    def open_channel(
        self,
        argv: Sequence[str],
        *,
        supply: Optional[Callable[[], bytes]] = None,
        timeout: float = 60.0,
    ) -> Channel:
        """Start a program (by sudo where the roster says so) and return the channel to it.

        The program's side (see `core.framing` for its helpers):
          1. It reads one line of its stdin: the nonce of this run, 64 hex digits.
          2. It may print the line `catena-need NONCE`: we then write the length of *supply*'s
             bytes in decimal, a line end, and the bytes. Once at most.
          3. It prints the line `catena-ready NONCE`; all that stood on stdout before (banner,
             .bashrc) is skipped, 256 KiB at most. From then on stdin and stdout carry frames
             only; it keeps that stdout to itself (dup, close-on-exec), so that no child writes
             between them.
          4. It ends when its stdin ends.

        Args:
            argv: the program and its arguments.
            supply: makes the bytes for a program that asks for them; None: it must not ask.
            timeout: seconds until it is ready.

        Raises:
            SshError: phase session or install: it ended or was silent, with the last line of its
                stderr.
        """

    def close(self) -> None:
        """End the connection and all its channels. Never raises."""


#: Makes a connection to a target, again after the last one was lost.
Connector = Callable[[Target], Connection]

#: Told of each step of a push, for a live line: (phase, one short text).
Watch = Callable[[Phase, str], None]
