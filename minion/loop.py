"""One poll over all descriptors: the link's sockets, unix sockets, pidfds, signals."""

from __future__ import annotations

from typing import Callable, Dict

from catena.transport.zeromq import zmq


class Loop:
    """A zmq.Poller whose plain descriptors have callbacks; the link's own sockets have none."""

    def __init__(self) -> None:
        self.poller = zmq.Poller()
        self._callbacks: Dict[int, Callable[[int], None]] = {}

    def watch(self, handle: int, callback: Callable[[int], None], *, write: bool = False) -> None:
        """Call *callback* with the event mask whenever *handle* is readable (or writable)."""
        self._callbacks[handle] = callback
        self.poller.register(handle, zmq.POLLIN | (zmq.POLLOUT if write else 0))

    def forget(self, handle: int) -> None:
        """Stop watching *handle*; call it before closing the descriptor."""
        if self._callbacks.pop(handle, None) is not None:
            self.poller.unregister(handle)

    def poll(self, timeout_ms: int) -> None:
        """Wait for events, then run the callbacks of ready descriptors."""
        polled = self.poller.poll(timeout_ms)
        due = [
            (handle, mask, self._callbacks.get(handle))
            for handle, mask in polled
            if isinstance(handle, int)
        ]
        for handle, mask, callback in due:
            # An earlier callback may have closed this descriptor and reused its number.
            if callback is not None and self._callbacks.get(handle) is callback:
                callback(mask)
