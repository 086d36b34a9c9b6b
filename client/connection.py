"""The way of every command to the master: one unix socket, one request, its answers."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import Any, Iterator, Optional

from catena.client.errors import raised
from catena.client.requests import VERBS, BlobPut
from catena.core.errors import UnreachableError
from catena.core.records import encode
from catena.transport.local import LocalClient
from catena.transport.messages import ClientItem, ClientReply, ClientRequest, Failure

#: Size of one piece of an uploaded file.
PIECE_BYTES = 1024 * 1024


class MasterClient:
    """A client of the master on this host.

    Args:
        path: the master's unix socket.
        timeout: seconds for a plain answer; streams wait without end.
    """

    def __init__(self, path: Path, timeout: float = 60.0) -> None:
        self._path = path
        self._timeout = timeout

    def request(self, verb: str, record: Any = None) -> Any:
        """Return the master's one answer to *verb*.

        Args:
            verb: a name in client.requests.VERBS.
            record: the verb's record, or None for one without fields set.

        Raises:
            CatenaError: what the master answered instead, as the class it named.
            UnreachableError: no master answers on this host.
        """
        return list(self.stream(verb, record, self._timeout))[-1]

    def stream(self, verb: str, record: Any, timeout: Optional[float] = None) -> Iterator[Any]:
        """Yield each item of the answer to *verb*, its last reply included."""
        message = ClientRequest(verb, encode(record if record is not None else VERBS[verb]()))
        try:
            with closing(LocalClient(self._path)) as link:
                for answer in link.stream(message, timeout):
                    if isinstance(answer, Failure):
                        raise raised(answer.code, answer.message)
                    if isinstance(answer, (ClientItem, ClientReply)):
                        yield answer.value
        except (FileNotFoundError, ConnectionRefusedError):
            raise UnreachableError(
                f"no master listens on {self._path}; is `catena master` running here?"
            ) from None
        except PermissionError:
            raise UnreachableError(
                f"this user may not talk to the master ({self._path}); see `cli_users`"
            ) from None
        except (ConnectionResetError, BrokenPipeError, EOFError):
            raise UnreachableError("the master went away while it answered") from None

    def upload(self, content: bytes) -> str:
        """Send a file's bytes ahead of the request that names it; return its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        count = max(1, -(-len(content) // PIECE_BYTES))
        for index in range(count):
            piece = content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES]
            self.request("blob.put", BlobPut(digest, index, count, piece))
        return digest
