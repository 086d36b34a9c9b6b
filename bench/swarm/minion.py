"""What one simulated minion says: orders in, messages out; no sockets and no clock.

It is as honest as a real one where the master can tell: it confirms what a real one confirms, its
returns of chains have the form of state runs, and a reboot ends its session. Other chains wait
behind one that waits for its boot, and a job of a chain runs once, however often it is ordered.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catena.core.chain_calls import RESUME, START
from catena.core.job import ActionKind, ChainManifest, ChunkManifest, JobReturn, JobSpec
from catena.core.payloads import chain_of
from catena.transport import messages as m

#: Answered without a word before the return, as the real minion's inline functions are.
INLINE: Mapping[str, Any] = {"test.ping": True, "saltutil.running": []}
#: Plain commands: a real minion has a process that waits for them, and their return comes so soon
#: that it is the receipt as well (`minion/jobs/receipts.py`).
QUICK = frozenset({"cmd.run"})
VERSION = "1"


@dataclass
class Waiting:
    """A chain that waits at a reboot."""

    manifest: ChainManifest
    #: Number of the chunk that is next.
    chunk: int
    #: The boot that has to end first.
    boot_id: str


class SimMinion:
    """One minion.

    Args:
        id: its id.
        machine_id: of its host.
        value: what every ordinary job returns.
    """

    def __init__(self, id: str, machine_id: str, value: Any) -> None:
        self.id = id
        self.machine_id = machine_id
        #: Job whose stored return lets the armed reboot happen; "" without one.
        self.reboots_after = ""
        self._value = value
        self._waiting: Waiting | None = None
        #: Starts of chains that wait until no other one waits for its boot.
        self._held: deque[JobSpec] = deque()
        #: Jobs of chains that have run, or wait to.
        self._taken: set[str] = set()
        self.boot()

    def boot(self) -> None:
        """Begin a new boot with a new agent process."""
        self.boot_id = os.urandom(16).hex()
        self.session = os.urandom(16).hex()
        self.reboots_after = ""

    def hello(self, unstored: Iterable[str] = ()) -> m.Hello:
        """Return the greeting of a new connection; *unstored* are jobs whose returns are owed."""
        waiting = self._waiting
        pending = {} if waiting is None else {"actionchain_id": waiting.manifest.chain_id}
        return m.Hello(
            id=self.id,
            machine_id=self.machine_id,
            boot_id=self.boot_id,
            session=self.session,
            version=VERSION,
            role="minion",
            first=True,
            grains={"id": self.id, "os": "Debian", "os_family": "Debian", "kernel": "Linux"},
            open_jobs=(*unstored, *(spec.jid for spec in self._held)),
            pending_resume=pending,
        )

    def ordered(self, spec: JobSpec, now: float) -> list[Any]:
        """Return what is said to an order; *now* is wall clock."""
        if spec.fun in INLINE:
            return [m.JobReturned(self._return(spec, INLINE[spec.fun], now))]
        received = m.JobReceived(spec.jid, 0)
        if spec.fun not in (START, RESUME):
            returned = m.JobReturned(self._return(spec, self._value, now))
            return [returned] if spec.fun in QUICK else [received, returned]
        if spec.jid in self._taken:
            return [received]
        self._taken.add(spec.jid)
        if spec.fun == START:
            self._held.append(spec)
            return [m.JobReceived(spec.jid, len(self._held) - 1), *self.go_on(now)]
        resumed = m.JobReturned(self._return(spec, self._resume(spec.jid), now))
        return [received, resumed, *self.go_on(now)]

    def go_on(self, now: float) -> list[Any]:
        """Start the chains that wait for no other one any more; return what is said of them."""
        said: list[Any] = []
        while self._held and self._waiting is None and not self.reboots_after:
            spec = self._held.popleft()
            chain = chain_of(spec)
            value = {} if chain is None else self._run_chunk(spec.jid, chain, 1)
            said.append(m.JobReturned(self._return(spec, value, now)))
        return said

    def _return(self, spec: JobSpec, value: Any, now: float) -> JobReturn:
        return JobReturn(
            jid=spec.jid,
            fun=spec.fun,
            fun_args=spec.args,
            success=True,
            retcode=0,
            value=value,
            started=now,
            duration_seconds=0.001,
            boot_id=self.boot_id,
        )

    def _resume(self, jid: str) -> dict[str, Any]:
        waiting = self._waiting
        if waiting is None:
            return {}
        if waiting.boot_id == self.boot_id:
            return {"not_resumed": "this is still the boot in which the reboot was asked for"}
        self._waiting = None
        return self._run_chunk(jid, waiting.manifest, waiting.chunk)

    def _run_chunk(self, jid: str, manifest: ChainManifest, number: int) -> dict[str, Any]:
        chunk = manifest.chunks[number - 1]
        if any(action.kind is ActionKind.reboot for action in chunk.actions):
            self.reboots_after = jid
        if number < len(manifest.chunks):
            self._waiting = Waiting(manifest, number + 1, self.boot_id)
        return chunk_results(chunk)


def chunk_results(chunk: ChunkManifest) -> dict[str, Any]:
    """Return the results of a chunk whose actions all went well, in the form of state runs."""
    return {
        f"mgrcompat_|-{action.state_id}_|-test.ping_|-module_run": {
            "result": True,
            "comment": "Module function test.ping executed",
            "changes": {"test.ping": True},
            "name": "test.ping",
            "start_time": "12:00:00.000000",
            "duration": 1.0,
            "__run_num__": number,
            "__id__": action.state_id,
            "__sls__": chunk.sls,
        }
        for number, action in enumerate(chunk.actions)
    }
