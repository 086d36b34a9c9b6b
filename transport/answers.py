"""Answers to a client before they are written; small items share one message (sans-IO)."""

from __future__ import annotations

from typing import Any, List

from catena.transport import wire
from catena.transport.framing import frame
from catena.transport.messages import ClientItem

#: Maximum bytes of the items in one message; a larger item becomes a message of its own.
TOGETHER_BYTES = 64 * 1024


class ReplyQueue:
    """Frames for one client, in the order in which they were added.

    Without sharing, a job of a thousand minions makes three thousand messages at once. Their
    headers and checks took a tenth of the master's CPU time and most of the client's.
    """

    def __init__(self) -> None:
        #: Bytes that are waiting to be written.
        self.size = 0
        self._frames: List[bytes] = []
        #: Packed items of one request that are not in a message yet.
        self._items: List[bytes] = []
        self._items_bytes = 0
        self._items_of = wire.ZERO

    def add(self, message: Any, reply_to: bytes) -> None:
        """Add a message that answers *reply_to*.

        Raises:
            LimitError, NotPackableError: the message cannot be sent; nothing of it is added.
        """
        if type(message) is not ClientItem:
            self._add_frame(wire.pack(message, reply_to=reply_to))
            return
        value = wire.pack_body(message.value)
        if len(value) > TOGETHER_BYTES:
            self._add_frame(wire.pack(wire.packed_item(value), reply_to=reply_to))
            return
        if reply_to != self._items_of or self._items_bytes + len(value) > TOGETHER_BYTES:
            self._close_items()
            self._items_of = reply_to
        self._items.append(value)
        self._items_bytes += len(value)
        self.size += len(value)

    def take(self) -> bytes:
        """Remove and return all waiting data, ready to be written; b"" if there is none."""
        self._close_items()
        frames, self._frames, self.size = self._frames, [], 0
        return b"".join(frames)

    def _add_frame(self, whole: bytes) -> None:
        data = frame(whole)
        self._close_items()
        self._frames.append(data)
        self.size += len(data)

    def _close_items(self) -> None:
        if not self._items:
            return
        items, self._items, self._items_bytes = self._items, [], 0
        message = wire.packed_items(items) if len(items) > 1 else wire.packed_item(items[0])
        self._frames.append(frame(wire.pack(message, reply_to=self._items_of)))
