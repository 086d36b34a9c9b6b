"""The connection of every command to the master: one unix socket, one request at a time."""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Generator, Iterator, Optional, TypeVar, Union

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

#: Bytes per piece of an uploaded file.
PIECE_BYTES = 1024 * 1024


class Attempts:
    """One request, and the decision whether it is sent again after an error.

    Args:
        message: the request.
        ask: sends another request once and returns its value; takes seconds for the answer.
        tell: called with one line when an answer is lost, and when its outcome is known.
        key: under which a person repeats the request safely.
    """

    def __init__(
        self,
        message: ClientRequest,
        ask: Callable[[ClientRequest, float], object],
        tell: Callable[[str], None],
        key: str,
    ) -> None:
        #: What is sent at the next attempt.
        self.message = message
        self._ask = ask
        self._tell = tell
        self._key = key
        #: When to give up, on the monotonic clock; 0 before the first lost answer.
        self._until = 0.0

    def repeat(self, error: Union[LostAnswerError, PeerError], begun: bool = False) -> None:
        """Return when the request may be sent again; wait for the master if its answer was lost.

        Args:
            error: how the last attempt ended.
            begun: whether an item of its stream has arrived.

        Raises:
            LostAnswerError, PeerError: *error*; the request must not be sent again.
            UnreachableError: no master can say what became of the request.
        """
        if isinstance(error, PeerError):
            self.message = _for_older(self.message, error)
            return
        if begun or not self.message.key:
            raise error
        # Imported here because answers are rarely lost.
        from catena.client.repeat import PATIENCE_SECONDS, LostAnswer, look

        self._until = self._until or time.monotonic() + PATIENCE_SECONDS
        hint = f"if it is repeated with --request-key {self._key}, it takes effect only once"
        look(LostAnswer(self.message, self._ask, self._tell, hint), str(error), self._until)


class MasterClient:
    """A client of the master on this host, for one thread.

    Inside its `with` block the connection is kept for the next request, and a request made while a
    stream is read opens another one. Outside the block each request opens its own.

    Args:
        path: the master's unix socket.
        timeout: seconds for a plain answer; streams wait without limit.
        key: identifies the requests of this client, in their order. The same requests under the
            same key take effect only once; "": a new key.
        tell: called with one line when an answer is lost, and when it is known whether the
            request took effect.
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
        #: Number of requests made per verb.
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
        """Return the reply to a request as a record of the type in its contract.

        A request that changes something has a key. If its answer is lost, it is sent again to
        the next master that answers, and takes effect at most once.

        Args:
            ask: the verb's contract, a constant of client.requests.
            request: the verb's request record; None for its defaults.

        Raises:
            CatenaError: the error in the master's answer, as the class that it names.
            UnreachableError: no master answers on this host, or none answered after an answer
                was lost; the message says so.
            RecordError: the reply does not match the contract.
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
        """Return the reply as undecoded plain data; otherwise like `ask`."""
        attempts = self.attempts(ask, request)
        while True:
            try:
                return self._ask(attempts.message, self._timeout)
            except (LostAnswerError, PeerError) as error:
                attempts.repeat(error)

    def stream(
        self,
        ask: Ask[Q, Any, Any],
        request: Optional[Q] = None,
        silence: Optional[float] = None,
        first: Optional[float] = None,
    ) -> Generator[Any, None, Any]:
        """Yield each item as undecoded plain data; otherwise like `follow`.

        If the connection breaks before a followed job's first item, the job is looked up as in
        `ask`. *first* is the longest wait for the first item in seconds, if it is not *silence*.
        """
        attempts, begun = self.attempts(ask, request), False
        while True:
            try:
                with self._link() as link:
                    for item in link.stream(attempts.message, silence, first):
                        begun = True
                        yield item
                    return link.last_reply
            except (LostAnswerError, PeerError) as error:
                attempts.repeat(error, begun)

    def attempts(self, ask: Ask[Q, Any, Any], request: Optional[Q] = None) -> Attempts:
        """Return a new request, which is sent again when its answer is lost."""
        return Attempts(self._message(ask, request), self._ask, self._tell, self._key)

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
            # The stream may have been left early: the next request ignores its remaining items.
            self._keep(link)
            raise
        except BaseException:
            link.close()
            raise
        self._keep(link)

    def _keep(self, link: LocalClient) -> None:
        """Keep *link* for the next request in place of the kept one, or close it."""
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
        """Send a file before the request that refers to it; return its SHA-256.

        Args:
            content: the bytes.
            sent: called after each piece with the number of bytes that the master has.
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
    """Refuse text that UTF-8 cannot encode: the master would receive a different text.

    Raises:
        UsageError: *value* contains such text.
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
    """Return *message* without its key, for an older master that refused the key.

    Raises:
        PeerError: *error* has another cause.
    """
    if not message.key or "unknown field 'key'" not in str(error):
        raise error
    return replace(message, key="")
