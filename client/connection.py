"""The way of every command to the master: one unix socket, one request at a time, its answers."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional

from catena.client.requests import contract
from catena.core.digest import sha256
from catena.core.errors import NotAllowedError, PeerError, UnreachableError
from catena.core.frozen import replace
from catena.core.logs import logger
from catena.core.records import encode
from catena.transport.local import LocalClient, LostAnswerError
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
        key: names the requests that this client makes, in their order. A client that makes the
            same requests under the same key again changes nothing twice; "": a new name.
        tell: called with one line when an answer is lost, and when it is known what became of
            the request.
    """

    def __init__(
        self,
        path: Path,
        timeout: float = 60.0,
        key: str = "",
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._key = key or os.urandom(12).hex()
        self._tell = tell
        #: How many requests of each verb were made.
        self._sent: Dict[str, int] = {}
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

        A request that changes something has a key. When its answer is lost it is sent again to
        the next master that answers, which carries it out at most once.

        Args:
            verb: the name of a contract in client.requests.
            record: the verb's record; None for one without fields set.

        Raises:
            CatenaError: what the master answered instead, as the class it named.
            UnreachableError: no master answers on this host, or none did again after an answer
                was lost; the message says so.
        """
        message, until = self._message(verb, record), 0.0
        while True:
            try:
                return self._ask(message, self._timeout)
            except LostAnswerError as error:
                until = self._look(message, error, until)
            except PeerError as error:
                message = _for_older(message, error)

    def stream(self, verb: str, record: Any, silence: Optional[float] = None) -> Iterator[Any]:
        """Yield each item of the answer to *verb*.

        A job that is followed and whose answer is lost before the first item is looked for as in
        `request`.

        Args:
            verb: a "-> stream" verb.
            record: its record.
            silence: longest wait for an item, seconds; None: without end.
        """
        message, until, begun = self._message(verb, record), 0.0, False
        while True:
            try:
                with self._link() as link:
                    for item in link.stream(message, silence):
                        begun = True
                        yield item
                return
            except LostAnswerError as error:
                if begun:
                    raise
                until = self._look(message, error, until)
            except PeerError as error:
                message = _for_older(message, error)

    def _message(self, verb: str, record: Any) -> ClientRequest:
        log.debug("asking the master: %s", verb)
        ask = contract(verb)
        params = encode(record if record is not None else ask.request())
        if ask.idempotent:
            return ClientRequest(verb, params)
        count = self._sent.get(verb, 0)
        self._sent[verb] = count + 1
        return ClientRequest(verb, params, f"{self._key}/{verb}/{count}")

    def _ask(self, message: ClientRequest, seconds: float) -> Any:
        with self._link() as link:
            return link.request(message, seconds).value

    def _look(self, message: ClientRequest, error: LostAnswerError, until: float) -> float:
        """Find out what became of a request; return until when to do that again."""
        if not message.key:
            raise error
        # Needed once in a hundred thousand commands.
        from catena.client.repeat import PATIENCE_SECONDS, Lost, look

        until = until or time.monotonic() + PATIENCE_SECONDS
        hint = f"repeated with --request-key {self._key} it is carried out once"
        look(Lost(message, self._ask, self._tell, hint), str(error), until)
        return until

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

    def upload(self, content: bytes, sent: Callable[[int], object] = lambda count: None) -> str:
        """Send a file's bytes ahead of the request that names it; return its SHA-256.

        Args:
            content: the bytes.
            sent: called with the number of bytes that the master has, after each piece.
        """
        from catena.client.requests.blobs import BlobPut

        digest = sha256(content).hexdigest()
        count = max(1, -(-len(content) // PIECE_BYTES))
        for index in range(count):
            piece = content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
            self.request("blob.put", BlobPut(digest, index, count, piece))
            sent(index * PIECE_BYTES + len(piece))
        return digest


def _for_older(message: ClientRequest, error: PeerError) -> ClientRequest:
    """Return *message* for a master that knows no keys and refused it, having done nothing.

    Raises:
        PeerError: *error* says something else.
    """
    if not message.key or "unknown field 'key'" not in str(error):
        raise error
    return replace(message, key="")
