"""The unix socket in front of the dispatcher: the kernel says which user is on a connection."""

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

#: Characters of the columns that keep a user's name.
NAME_LIMIT = 64


class LocalUsers:
    """Users of the unix socket: root, the master's own user, and those of `cli_users`."""

    def __init__(self, cli_users: Collection[str]) -> None:
        self._names = frozenset(cli_users)

    def allows(self, peer: LocalPeer) -> bool:
        """Return whether *peer* may ask at all."""
        return peer.uid in (0, os.geteuid()) or user_name(peer.uid) in self._names

    def caller(self, peer: LocalPeer) -> Caller:
        """Return who *peer* is and what it may do (all of it, or nothing)."""
        rights = ADMINISTRATOR if self.allows(peer) else frozenset()
        return Caller(recorded_name(user_name(peer.uid)), rights)


class UnixDoor:
    """Answers the requests of the unix socket.

    Args:
        dispatcher: answers them.
        users: who the users of the socket are.
    """

    def __init__(self, dispatcher: Dispatcher, users: LocalUsers) -> None:
        self._dispatcher = dispatcher
        self._users = users
        #: Caller of each connection; the system's list of users is a file, read anew each time.
        self._callers: WeakKeyDictionary[LocalConnection, Caller] = WeakKeyDictionary()

    def allows(self, peer: LocalPeer) -> bool:
        """Return whether *peer* may ask at all."""
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
    # The stream is read to its very end: asyncio ends an abandoned one by a task of its own.
    async for item in items:
        if isinstance(item, End):
            last = item.value
        elif isinstance(item, Aside):
            await connection.send(ClientItem(item.value), reply_to, patient=True)
        else:
            await connection.send(ClientItem(item), reply_to)
    return last


def recorded_name(name: str) -> str:
    """Return a user's name as tables keep it: a longer one is cut and ends with a digest.

    A directory service may have longer names than the columns of a PostgreSQL store take.
    """
    if len(name) <= NAME_LIMIT:
        return name
    digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{name[: NAME_LIMIT - 13]}~{digest}"


def user_name(uid: int) -> str:
    """Return the name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
