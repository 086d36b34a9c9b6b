"""Client of catena's program on a host (`runtime.push.protocol`), over one channel."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.core.errors import PeerError
from catena.core.frozen import dataclass
from catena.runtime.push import protocol as p
from catena.ssh.connect.errors import ChannelLostError, SshError
from catena.ssh.connect.link import Connection, ProgramChannel
from catena.ssh.push.bundle import AnyBundle
from catena.ssh.push.remembered import Ground, Remembered

#: Seconds added to the time that the host needs for the work itself.
SLACK_SECONDS = 30.0
#: Seconds for a host to store received data, and the assumed minimum bytes per second.
PUT_SECONDS = 60.0
SLOWEST = 16 * 1024
#: Maximum number of slices in one put.
_MANY = 500


@dataclass(frozen=True)
class Part:
    """A content that the host may request."""

    sha256: str
    size: int
    #: The bytes, or the file that holds them.
    content: bytes | Path

    @classmethod
    def of(cls, data: bytes) -> Part:
        """Return a part with the given bytes."""
        return cls(hashlib.sha256(data).hexdigest(), len(data), data)


class Program:
    """The program on a host. Every method sends one request.

    All methods raise TargetError (with the kind of trouble) if the program fails,
    ChannelLostError if the channel ended (reconnect and ask for the state), and PeerError or
    RecordError if the reply is invalid.

    Args:
        channel: to the program.
    """

    def __init__(self, channel: ProgramChannel) -> None:
        self._channel = channel

    @classmethod
    def start(
        cls,
        connection: Connection,
        bundle: AnyBundle,
        timeout: float = 60.0,
        remembered: Remembered | None = None,
    ) -> Program:
        """Start the program on a host; send it first if it is missing.

        Raises:
            SshError: the host can't run the program.
        """
        known = remembered or Remembered()

        def begun(ground: Ground) -> Program:
            argv = bundle.argv(ground.python, ground.room)
            return cls(connection.open_channel(argv, supply=bundle.supply, timeout=timeout))

        ground = known.recall(connection.target)
        if ground is not None:
            try:
                return begun(ground)
            except SshError as error:
                if error.waits and not isinstance(error, ChannelLostError):
                    raise
                # The interpreter or folder may have changed; a new probe finds or reports that.
                known.forget(connection.target)
        probed = connection.probe()
        ground = Ground(probed.python, probed.room)
        program = begun(ground)
        known.keep(connection.target, ground)
        return program

    def close(self) -> None:
        """Close the channel; runs continue."""
        self._channel.close()

    def hello(self) -> p.HostWelcome:
        """Return the greeting of the program, with the stored runs."""
        answer: p.HostWelcome = self._ask(p.HostHello())
        return answer

    def open(
        self, identity: p.HostIdentity, custom: Sequence[p.Tree] = (), *, grains: bool = True
    ) -> p.Opened:
        """Set the host's id; return its grains, or the missing parts of *custom*."""
        question = p.Open(identity, tuple(custom), grains)
        answer: p.Opened = self._ask(question, seconds=150.0)
        return answer

    def pillar(self, pillar: Mapping[Any, Any]) -> None:
        """Set the pillar for functions."""
        self._ask(p.Pillar(dict(pillar)))

    def call(self, call: p.Call) -> p.Called:
        """Call one function."""
        answer: p.Called = self._ask(call, seconds=call.timeout_seconds + SLACK_SECONDS)
        return answer

    def known(self, names: Iterable[str], kind: str = "function") -> frozenset[str]:
        """Return the elements of *names* that exist on the host."""
        return frozenset(self._ask(p.Known(tuple(names), kind)).names)

    def missing(self, sha256: Iterable[str]) -> frozenset[str]:
        """Return the hashes of the parts that are missing on the host."""
        wanted = tuple(dict.fromkeys(sha256))
        found: set[str] = set()
        for start in range(0, len(wanted), 10_000):
            # The host hashes its parts again, so one request must not have too many.
            asked = p.Has(wanted[start : start + 10_000])
            found.update(self._ask(asked, seconds=600.0).sha256)
        return frozenset(found)

    def put(self, parts: Iterable[Part]) -> int:
        """Send parts, combining small ones; return the number of bytes sent.

        Raises:
            OSError: a file can't be read.
        """
        sent = 0
        for slices, data in _batches(parts):
            packed = zlib.compress(data, 1)
            smaller = len(packed) < len(data)
            blob = packed if smaller else data
            seconds = PUT_SECONDS + len(blob) / SLOWEST
            self._ask(p.Put(tuple(slices), smaller), blob, seconds=seconds)
            sent += len(blob)
        return sent

    def begin(self, run_id: str, job: str) -> p.Polled:
        """Start the run whose job is the part *job*; do nothing if it was already started."""
        answer: p.Polled = self._ask(p.Start(run_id, job), seconds=120.0)
        return answer

    def poll(self, run_id: str, after: int = 0, wait_seconds: float = 0.0) -> p.Polled:
        """Return the steps of a run after number *after*; wait a while for the first one."""
        question = p.Poll(run_id, after, wait_seconds)
        answer: p.Polled = self._ask(question, seconds=wait_seconds + SLACK_SECONDS)
        return answer

    def supply(self, run_id: str, number: int, blob: bytes) -> None:
        """Send the reply to a request of a run (`runtime.push.asking.pack_reply`)."""
        self._ask(p.Supply(run_id, number), blob)

    def collect(self, run_id: str, limit: int) -> p.RunResult:
        """Return the outcome of a run.

        Raises:
            PeerError: the host sends more than *limit* bytes, or other bytes than announced.
        """
        data = b""
        while True:
            head, piece = self._ask_both(p.Collect(run_id, len(data)))
            data += piece
            if head.size > limit:
                raise PeerError(f"a return of {head.size} bytes, limit {limit}")
            if len(data) >= head.size or not piece:
                break
        if hashlib.sha256(data).hexdigest() != head.sha256:
            raise PeerError("the return that came is not the one that was announced")
        return p.unpack_result(data)

    def cancel(self, run_id: str, reason: str = "") -> p.Polled:
        """Kill a run with all its children."""
        answer: p.Polled = self._ask(p.Cancel(run_id, reason))
        return answer

    def ack(self, run_id: str) -> None:
        """Confirm that a run's return is stored here; the host then deletes the run."""
        self._ask(p.Ack(run_id))

    def clean(self, clean: p.Clean | None = None) -> p.Cleaned:
        """Remove old files, as the host also does by itself once a day."""
        answer: p.Cleaned = self._ask(clean or p.Clean(), seconds=300.0)
        return answer

    def wipe(self) -> None:
        """Remove everything from the host's private folder."""
        self._ask(p.Wipe(), seconds=300.0)

    def _ask(self, question: Any, blob: bytes = b"", seconds: float | None = None) -> Any:
        return self._ask_both(question, blob, seconds)[0]

    def _ask_both(
        self, question: Any, blob: bytes = b"", seconds: float | None = None
    ) -> tuple[Any, bytes]:
        reply = self._channel.request(p.ask(question), blob, timeout=seconds)
        return p.answered(question, reply.message), reply.blob


def _batches(parts: Iterable[Part]) -> Iterator[tuple[list[p.Slice], bytes]]:
    """Yield the slices, and their bytes, of each request."""
    slices: list[p.Slice] = []
    pieces: list[bytes] = []
    size = 0
    for one, data in _slices(parts):
        if slices and (size + len(data) > p.PUT_LIMIT or len(slices) >= _MANY):
            yield slices, b"".join(pieces)
            slices, pieces, size = [], [], 0
        slices.append(one)
        pieces.append(data)
        size += len(data)
    if slices:
        yield slices, b"".join(pieces)


def _slices(parts: Iterable[Part]) -> Iterator[tuple[p.Slice, bytes]]:
    for part in parts:
        at = 0
        for data in _pieces(part):
            yield p.Slice(part.sha256, part.size, at, len(data)), data
            at += len(data)


def _pieces(part: Part) -> Iterator[bytes]:
    if isinstance(part.content, bytes):
        for at in range(0, max(len(part.content), 1), p.PUT_LIMIT):
            yield part.content[at : at + p.PUT_LIMIT]
        return
    with part.content.open("rb") as stream:
        data = stream.read(p.PUT_LIMIT)
        yield data
        while data:
            data = stream.read(p.PUT_LIMIT)
            if data:
                yield data
