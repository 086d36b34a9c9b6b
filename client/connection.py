"""The way of every command to the master: one unix socket, one request at a time, its answers."""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Generator, Iterator, Optional, TypeVar

from catena.client.requests.contract import AnyAsk, Ask
from catena.core.digest import sha256
from catena.core.errors import NotAllowedError, PeerError, UnreachableError, UsageError
from catena.core.files import AnyPath
from catena.core.frozen import replace
from catena.core.logs import logger
from catena.core.records import encode
from catena.transport.local import LocalClient, LostAnswerError
from catena.transport.messages import ClientRequest

Q = TypeVar("Q")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item

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
        path: AnyPath,
        timeout: float = 60.0,
        key: str = "",
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path = Path(path)
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

    def ask(self, ask: Ask[Q, A, Any], request: Optional[Q] = None) -> A:
        """Return the reply to a request as the record that its contract names.

        A request that changes something has a key. When its answer is lost it is sent again to
        the next master that answers, which carries it out at most once.

        Args:
            ask: the verb's contract, a constant of client.requests.
            request: the verb's request record; None for one without fields set.

        Raises:
            CatenaError: what the master answered instead, as the class it named.
            UnreachableError: no master answers on this host, or none did again after an answer
                was lost; the message says so.
            RecordError: the master sent something else than the contract says.
        """
        from catena.client.typed import reply_of

        return reply_of(ask, self.request(ask, request))

    def follow(
        self, ask: Ask[Q, A, I], request: Optional[Q] = None, silence: Optional[float] = None
    ) -> Generator[I, None, A]:
        """Yield each item of a stream as a record; the generator returns the reply.

        Closing the generator ends the stream.

        Args:
            ask: the contract of a verb that streams.
            request: its request record.
            silence: longest wait for an item, seconds; None: without end.

        Raises:
            As `ask`.
        """
        from catena.client.typed import item_of, reply_of

        with closing(self.stream(ask, request, silence)) as items:
            while True:
                try:
                    item = next(items)
                except StopIteration as end:
                    return reply_of(ask, end.value)
                yield item_of(ask, item)

    def request(self, ask: Ask[Q, Any, Any], request: Optional[Q] = None) -> Any:
        """Return the reply as plain data, as it travels; otherwise as `ask`."""
        message, until = self._message(ask, request), 0.0
        while True:
            try:
                return self._ask(message, self._timeout)
            except LostAnswerError as error:
                until = self._look(message, error, until)
            except PeerError as error:
                message = _for_older(message, error)

    def stream(
        self, ask: Ask[Q, Any, Any], request: Optional[Q] = None, silence: Optional[float] = None
    ) -> Generator[Any, None, Any]:
        """Yield each item as plain data, as it travels; otherwise as `follow`.

        A job that is followed and whose answer is lost before the first item is looked for as in
        `ask`.
        """
        message, until, begun = self._message(ask, request), 0.0, False
        while True:
            try:
                with self._link() as link:
                    for item in link.stream(message, silence):
                        begun = True
                        yield item
                    return link.last_reply
            except LostAnswerError as error:
                if begun:
                    raise
                until = self._look(message, error, until)
            except PeerError as error:
                message = _for_older(message, error)

    def _message(self, ask: AnyAsk, request: Any) -> ClientRequest:
        log.debug("asking the master: %s", ask.name)
        params = encode(request if request is not None else ask.request())
        _refuse_unencodable(ask.name, params)
        if ask.idempotent:
            return ClientRequest(ask.name, params)
        count = self._sent.get(ask.name, 0)
        self._sent[ask.name] = count + 1
        return ClientRequest(ask.name, params, f"{self._key}/{ask.name}/{count}")

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
        from catena.client.requests import blobs

        digest = sha256(content).hexdigest()
        count = max(1, -(-len(content) // PIECE_BYTES))
        for index in range(count):
            piece = content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
            self.request(blobs.PUT, blobs.BlobPut(digest, index, count, piece))
            sent(index * PIECE_BYTES + len(piece))
        return digest


def _refuse_unencodable(verb: str, value: Any) -> None:
    """Refuse text that UTF-8 can't hold: the master would get another text in its place.

    Raises:
        UsageError: *value* holds such text.
    """
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                shown = ascii(value[:100])
                raise UsageError(f"{verb}: {shown} is not UTF-8 text; convert it") from None
    elif isinstance(value, dict):
        for item in value.items():
            _refuse_unencodable(verb, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_unencodable(verb, item)


def _for_older(message: ClientRequest, error: PeerError) -> ClientRequest:
    """Return *message* for a master that knows no keys and refused it, having done nothing.

    Raises:
        PeerError: *error* says something else.
    """
    if not message.key or "unknown field 'key'" not in str(error):
        raise error
    return replace(message, key="")
