"""Sending of returns to the master: in one message, or in pieces read from the file.

A return larger than a control frame is never loaded completely, so that an idle daemon does not
keep the memory of its largest return.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

from catena.core.digest import sha256
from catena.core.errors import CatenaError
from catena.minion.jobs.store import JobStore
from catena.minion.link.relay import Sender
from catena.minion.log import Log
from catena.minion.records.sealed import SEAL_BYTES
from catena.transport import wire
from catena.transport.messages import JobReturned, ReturnPart

#: Maximum bytes of a body sent as one JobReturned on the control socket.
SMALL_BYTES = 200 * 1024


class ReturnSender:
    """Sends returns, and tracks how much of each large one was sent.

    Args:
        log: the agent's log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next: Dict[str, int] = {}
        self._digest: Dict[str, str] = {}

    def say(self, store: JobStore, jid: str, link: Sender) -> bool:
        """Send a return, or its next pieces; return False if the link accepts no more now."""
        try:
            body = store.logged_return(jid)
            if body is not None:
                return link.send("control", wire.packed_as(JobReturned, body))
            folder = store.folder(jid)
            path = folder.return_path
            size = path.stat().st_size - SEAL_BYTES
            if size > SMALL_BYTES:
                return self._pieces(folder.jid, path, size, link)
            return link.send("control", JobReturned(folder.read_return(SMALL_BYTES)))
        except (OSError, CatenaError) as error:
            # Retried later, at growing intervals; the folder keeps the return for inspection.
            self._log.error(f"job {jid}: its return cannot be sent: {error}")
            return True

    def restart(self) -> None:
        """Start again with the first piece, because the connection has ended."""
        self._next.clear()

    def forget(self, jid: str) -> None:
        """Drop the state of a return that the master has stored."""
        self._next.pop(jid, None)
        self._digest.pop(jid, None)

    def _pieces(self, jid: str, path: Path, size: int, link: Sender) -> bool:
        count = -(-size // wire.CHUNK_BYTES)
        if jid not in self._digest:
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
    digest = sha256()
    with path.open("rb") as stream:
        stream.seek(SEAL_BYTES)
        for block in iter(lambda: stream.read(1024 * 1024), b""):
            digest.update(block)
    return digest.hexdigest()
