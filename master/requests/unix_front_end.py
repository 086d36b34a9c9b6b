"""The unix socket's front end of the dispatcher: the kernel identifies the caller."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Collection
from typing import Any
from weakref import WeakKeyDictionary

from catena.core import failpoints
from catena.core.digest import sha256
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.rights import ADMINISTRATOR, Caller
from catena.master.requests.verb import Aside, End
from catena.transport.local import LocalPeer
from catena.transport.local_server import LocalConnection
from catena.transport.messages import ClientItem, ClientReply, ClientRequest, Envelope

#: Length of the columns for a user's name, in characters.
NAME_LIMIT = 64


class LocalUsers:
    """Users of the unix socket: root, the master's own user, and those of `cli_users`."""

    def __init__(self, cli_users: Collection[str]) -> None:
        self._names = frozenset(cli_users)

    def allows(self, peer: LocalPeer) -> bool:
        """Return whether *peer* may send requests at all."""
        return peer.uid in (0, os.geteuid()) or user_name(peer.uid) in self._names

    def caller(self, peer: LocalPeer) -> Caller:
        """Return the caller *peer* with its rights (all or none)."""
        rights = ADMINISTRATOR if self.allows(peer) else frozenset()
        return Caller(recorded_name(user_name(peer.uid)), rights)


class UnixFrontEnd:
    """Answers the requests of the unix socket.

    Args:
        dispatcher: answers them.
        users: identifies the users of the socket.
    """

    def __init__(self, dispatcher: Dispatcher, users: LocalUsers) -> None:
        self._dispatcher = dispatcher
        self._users = users
        #: Connection -> its caller, cached because each lookup of a user reads the system's user
        #: file.
        self._callers: WeakKeyDictionary[LocalConnection, Caller] = WeakKeyDictionary()

    def allows(self, peer: LocalPeer) -> bool:
        """Return whether *peer* may send requests at all."""
        return self._users.allows(peer)

    async def serve(self, connection: LocalConnection, envelope: Envelope) -> None:
        """Answer one ClientRequest; its CatenaErrors become Failures."""
        request: ClientRequest = envelope.message
        caller = self._callers.get(connection)
        if caller is None:
            caller = self._callers[connection] = self._users.caller(connection.peer)
        failpoints.hit("master.request")
        answer = self._dispatcher.answer(caller, request.verb, request.params, request.key)
        if isinstance(answer, AsyncIterator):
            last = await _send_items(answer, connection, envelope.msg_id)
        else:
            last = await answer
        if request.key:
            failpoints.hit("master.request.taken")
        failpoints.hit("master.request.done")
        await connection.send(ClientReply(last), envelope.msg_id)


async def _send_items(
    items: AsyncIterator[Any], connection: LocalConnection, reply_to: bytes
) -> Any:
    """Send the items of a stream; return the value of its End, or None."""
    last: Any = None
    # Exhaust the stream: asyncio would finish an abandoned one in a task of its own.
    async for item in items:
        if isinstance(item, End):
            last = item.value
        elif isinstance(item, Aside):
            await connection.send(ClientItem(item.value), reply_to, patient=True)
        else:
            await connection.send(ClientItem(item), reply_to)
    return last


def recorded_name(name: str) -> str:
    """Return a user's name as stored in tables: a long one is cut and ends with a digest.

    Names in a directory service may be longer than the columns of a PostgreSQL store.
    """
    if len(name) <= NAME_LIMIT:
        return name
    digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{name[: NAME_LIMIT - 13]}~{digest}"


def user_name(uid: int) -> str:
    """Return the name of a user, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
