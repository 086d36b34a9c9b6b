"""The way of every command to the master: one unix socket, one request at a time, its answers."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Optional

from catena.client.requests import VERBS
from catena.client.requests import record as record_of
from catena.core.digest import sha256
from catena.core.errors import NotAllowedError, UnreachableError
from catena.core.logs import logger
from catena.core.records import encode
from catena.transport.local import LocalClient
from catena.transport.messages import ClientRequest

log = logger(__name__)

#: Size of one piece of an uploaded file.
PIECE_BYTES = 1024 * 1024


class MasterClient:
    """A client of the master on this host, for one thread.

    Inside its `with` block a connection is kept for the next request, and a request that is made
    while a stream is read has one of its own; outside each request has its own.

    Args:
        path: the master's unix socket.
        timeout: seconds for a plain answer; streams wait without end.
    """

    def __init__(self, path: Path, timeout: float = 60.0) -> None:
        self._path = path
        self._timeout = timeout
        self._keeps = False
        self._kept: Optional[LocalClient] = None

    def __enter__(self) -> MasterClient:
        self._keeps = True
        return self

    def __exit__(self, *_: object) -> None:
        self._keeps = False
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def request(self, verb: str, record: Any = None) -> Any:
        """Return the value of the master's one answer to *verb*.

        Args:
            verb: a name in client.requests.VERBS.
            record: the verb's record; None for one without fields set.

        Raises:
            CatenaError: what the master answered instead, as the class it named.
            UnreachableError: no master answers on this host.
        """
        with self._link() as link:
            return link.request(_message(verb, record), self._timeout).value

    def stream(self, verb: str, record: Any, silence: Optional[float] = None) -> Iterator[Any]:
        """Yield each item of the answer to *verb*.

        Args:
            verb: a "-> stream" verb.
            record: its record.
            silence: longest wait for an item, seconds; None: without end.
        """
        with self._link() as link:
            yield from link.stream(_message(verb, record), silence)

    @contextmanager
    def _link(self) -> Iterator[LocalClient]:
        link, self._kept = self._kept, None
        if link is None:
            link = self._open()
        elif not link.is_usable():
            link.close()
            link = self._open()
        try:
            yield link
        except GeneratorExit:
            # A stream that is left early: the master was told so, its last items are passed over.
            self._keep(link)
            raise
        except BaseException:
            link.close()
            raise
        self._keep(link)

    def _keep(self, link: LocalClient) -> None:
        """Keep *link* in place of what is kept, or hang up."""
        if self._keeps:
            link, self._kept = self._kept or link, link
        if link is not self._kept:
            link.close()

    def _open(self) -> LocalClient:
        try:
            there = self._path.exists()
        except PermissionError:
            from catena.client.refusal import why_refused

            raise NotAllowedError(why_refused(self._path)) from None
        if not there:
            raise UnreachableError(
                f"no master listens on {self._path}; is `catena master` running here?"
            )
        return LocalClient(self._path)

    def upload(self, content: bytes) -> str:
        """Send a file's bytes ahead of the request that names it; return its SHA-256."""
        digest = sha256(content).hexdigest()
        count = max(1, -(-len(content) // PIECE_BYTES))
        for index in range(count):
            piece = content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
            self.request("blob.put", record_of("BlobPut")(digest, index, count, piece))
        return digest


def _message(verb: str, record: Any) -> ClientRequest:
    log.debug("asking the master: %s", verb)
    return ClientRequest(verb, encode(record if record is not None else record_of(VERBS[verb])()))
