"""Sending of returns to the master: in one message, or in pieces read from the file.

A return larger than a control frame is never loaded completely, so that an idle daemon does not
keep the memory of its largest return.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict
from zlib import crc32

from catena.core.digest import sha256
from catena.core.errors import CatenaError
from catena.minion.jobs.folder import ReturnLostError
from catena.minion.jobs.store import JobStore
from catena.minion.link.relay import Sender
from catena.minion.log import Log
from catena.minion.records.sealed import SEAL, SEAL_BYTES
from catena.transport import wire
from catena.transport.messages import JobReturned, ReturnPart

#: Maximum bytes of a body sent as one JobReturned on the control socket.
SMALL_BYTES = 200 * 1024


class ReturnSender:
    """Sends returns, and tracks how much of each large one was sent.

    Args:
        log: the agent's log.
        wall: returns the seconds since the epoch.
    """

    def __init__(self, log: Log, wall: Callable[[], float]) -> None:
        self._log, self._wall = log, wall
        self._next: Dict[str, int] = {}
        self._digest: Dict[str, str] = {}

    def say(self, store: JobStore, jid: str, link: Sender) -> bool:
        """Send a return, or its next pieces; return False if the link accepts no more now."""
        try:
            return self._say(store, jid, link)
        except (FileNotFoundError, ReturnLostError) as error:
            return self._say_lost(store, jid, link, error)
        except (OSError, CatenaError) as error:
            # Retried later, at growing intervals; the folder keeps the return for inspection.
            self._log.error(f"job {jid}: its return cannot be sent: {error}")
            return True

    def _say(self, store: JobStore, jid: str, link: Sender) -> bool:
        folder = store.folder(jid)
        try:
            body = store.logged_return(jid)
        except ReturnLostError:
            # The log is damaged; the folder of a job that had a process of its own has a copy.
            if not folder.has_return():
                raise
            body = None
        if body is not None:
            return link.send("control", wire.packed_as(JobReturned, body))
        path = folder.return_path
        size = path.stat().st_size - SEAL_BYTES
        if size > SMALL_BYTES:
            return self._pieces(folder.jid, path, size, link)
        return link.send("control", JobReturned(folder.read_return(SMALL_BYTES)))

    def _say_lost(self, store: JobStore, jid: str, link: Sender, error: Exception) -> bool:
        """Send the reason in place of a return that cannot be read, once that is durable."""
        # Imported here, because an idle agent without jobs does not need it.
        from catena.minion.jobs.outcomes import failed_return, lost_text, order_or_stub

        self._log.error(f"job {jid}: its return is lost: {error}")
        body = failed_return(order_or_stub(store, jid), lost_text(error), self._wall())
        try:
            store.replace_return(jid, body)
        except (OSError, CatenaError) as obstacle:
            self._log.error(f"job {jid}: the reason cannot be stored yet: {obstacle}")
            return True
        return link.send("control", wire.packed_as(JobReturned, body))

    def restart(self) -> None:
        """Start again with the first piece, because the connection has ended."""
        self._next.clear()

    def forget(self, jid: str) -> None:
        """Drop the state of a return that the master has stored."""
        self._next.pop(jid, None)
        self._digest.pop(jid, None)

    def _pieces(self, jid: str, path: Path, size: int, link: Sender) -> bool:
        count = -(-size // wire.CHUNK_BYTES)
        if jid not in self._next:
            # Each attempt reads it again: the file may have been damaged since the last one.
            self._digest[jid] = _hash(path)
        with path.open("rb") as stream:
            for index in range(self._next.get(jid, 0), count):
                stream.seek(SEAL_BYTES + index * wire.CHUNK_BYTES)
                data = stream.read(wire.CHUNK_BYTES)
                part = ReturnPart(jid, self._digest[jid], index, count, data)
                if not link.send("bulk", part):
                    self._next[jid] = index
                    return False
        self._next.pop(jid, None)
        return True


def _hash(path: Path) -> str:
    """Return the SHA-256 of a sealed body.

    Raises:
        ReturnLostError: the body is torn or damaged.
    """
    digest, check, size = sha256(), 0, 0
    with path.open("rb") as stream:
        sealed = stream.read(SEAL_BYTES)
        for block in iter(lambda: stream.read(1024 * 1024), b""):
            digest.update(block)
            check, size = crc32(block, check), size + len(block)
    if sealed != SEAL.pack(check, size):
        raise ReturnLostError(f"{path}: torn or damaged")
    return digest.hexdigest()
