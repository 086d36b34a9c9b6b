"""A simulated host that is only reachable over SSH, and the master's visits to it.

The host is a model: boots, runs that outlive their visits, a journal of actions and a resume file,
by the rules that `runtime.push` and `runtime.chain_run` keep (and other tests hold them to). Under
test is the master: whom it visits when, and what it makes of what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from catena.core.chain_calls import CLEAN, RESUME, START
from catena.core.job import (
    ActionKind,
    ActionManifest,
    ChainManifest,
    ChunkManifest,
    JobReturn,
    JobSpec,
)
from catena.core.payloads import chain_of
from catena.core.records import encode
from catena.core.run_ref import RunRef, named
from catena.master.push import messages as m
from catena.master.push.decide import VisitEnd
from catena.master.push.visitor import VisitDiedError
from catena.ssh.push.job import ATTEMPTS as RUNS
from tests.sim.prints import Print
from tests.sim.stage import Stage

#: How often an idempotent action is begun that never ends.
ATTEMPTS = 3
#: A reboot that nobody collected the return of happens after this all the same.
PATIENCE_SECONDS = 20.0
_INTERRUPTED = "Interrupted: nobody knows what it did"


@dataclass
class Run:
    """One job on the host, durable from its first moment."""

    spec: JobSpec
    boot: int
    ret: JobReturn | None = None
    #: It asked for a reboot.
    reboots: bool = False
    #: Epochs of the chains that it worked on.
    epochs: dict[str, int] = field(default_factory=dict)
    begun: int = 0
    #: What its runs have printed, and how many bytes of that the last one has.
    prints: list[m.Printed] = field(default_factory=list)
    printed: int = 0
    task: asyncio.Task[Any] | None = None


@dataclass
class Noted:
    """What the journal says of one action."""

    attempts: int = 0
    row: dict[str, Any] | None = None


@dataclass
class Mark:
    """What a witness outside saw: an action begins or ends."""

    action_id: int
    what: str
    boot: int


@dataclass
class SshHost:
    """The host."""

    stage: Stage
    name: str
    boot: int = 1
    up: bool = True
    #: Whether the network leads there.
    joined: bool = True
    runs: dict[str, Run] = field(default_factory=dict)
    pending: dict[str, Any] = field(default_factory=dict)
    journal: dict[int, Noted] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    #: How often it said that nobody knows what something did.
    interrupted: int = 0
    visits: list[SimVisit] = field(default_factory=list)
    #: The chains whose manifests came here.
    chains: dict[int, ChainManifest] = field(default_factory=dict)
    #: Whether its resume files name the epoch; those of chains started from files alone do not.
    names_epoch: bool = True

    @property
    def boot_id(self) -> str:
        """The boot's id."""
        return f"{self.name}-boot-{self.boot}"

    # -- what befalls it -------------------------------------------------------------------------

    def power_cut(self, seconds: float) -> None:
        """Everything that runs there is gone; it boots after *seconds*."""
        if not self.up:
            return
        self.stage.tell(self.name, "power is cut")
        self._down(seconds)

    def kill_run(self) -> None:
        """End the processes of what runs, and nothing else."""
        for run in self.runs.values():
            if run.ret is None:
                self.stage.tell(self.name, f"run {run.spec.jid} is killed")
                self._end(run)

    def cut(self) -> None:
        """End every connection."""
        for visit in self.visits:
            visit.cut()
        self.visits.clear()

    def _down(self, seconds: float) -> None:
        self.up = False
        self.cut()
        for run in self.runs.values():
            self._end(run)
        self.stage.later(seconds, self._boots)

    def _boots(self) -> None:
        self.up = True
        self.boot += 1
        self.stage.tell(self.name, f"boots, {self.boot}")

    def _end(self, run: Run) -> None:
        if run.task is not None:
            run.task.cancel()
            run.task = None

    # -- jobs ------------------------------------------------------------------------------------

    def begin(self, spec: JobSpec) -> Run:
        """Start a job, or find it; go on with one of a chain whose processes are gone."""
        run = self.runs.setdefault(spec.jid, Run(spec, self.boot))
        if run.ret is None and run.task is None:
            run.begun += 1
            run.printed = 0
            run.boot = self.boot
            self.stage.tell(self.name, f"begins {spec.fun} {spec.jid}, {run.begun}")
            if run.begun > RUNS:
                self.interrupted += 1
                run.ret = self._return(run, _INTERRUPTED, False)
            else:
                run.task = self.stage.person(self._work(run))
        return run

    def forget(self, jid: str) -> None:
        """The master has the return: the run goes, and the reboot comes."""
        run = self.runs.pop(jid, None)
        if run is not None and run.reboots:
            self._reboot(run)

    def _reboot(self, run: Run) -> None:
        run.reboots = False
        if self.up and run.boot == self.boot:
            if self.stage.rng.random() > self.stage.reboots_work:
                self.stage.tell(self.name, "does not reboot")
                # It is asked again where a chain waits for it; at the end of one, that fails.
                self.interrupted += 0 if self.pending else 1
                return
            self.stage.tell(self.name, "reboots")
            self._down(self.stage.rng.choice((2.0, 15.0, 60.0)))

    async def _work(self, run: Run) -> None:
        try:
            await self._worked(run)
        except Exception as error:  # noqa: BLE001  # of this model
            self.stage.fault(f"{self.name}: {error!r}")

    async def _worked(self, run: Run) -> None:
        spec = run.spec
        value: dict[str, Any] = {}
        chain = chain_of(spec)
        if spec.fun == START and chain is not None:
            self.chains[chain.chain_id] = chain
            value = await self._chunk(run, chain, chain.chunks[0])
        elif spec.fun == RESUME:
            value = await self._resume(run)
        elif spec.fun == CLEAN:
            self._clean(named(spec.kwargs))
        good = all(row["result"] for row in value.values() if isinstance(row, dict))
        run.ret = self._return(run, value, good)
        if run.reboots:
            self.stage.later(PATIENCE_SECONDS, lambda: self._reboot(run))

    def _clean(self, which: RunRef | None) -> None:
        """Remove the resume file of a run, or any if none is named."""
        chain, epoch = self.pending.get("actionchain_id", 0), self.pending.get("epoch", 0)
        if which is None or which.covers(chain, epoch):
            self.pending = {}

    async def _resume(self, run: Run) -> dict[str, Any]:
        point = self.pending
        if not point:
            return {}
        if point["boot_id"] == self.boot_id and not point.get("running"):
            # Asked again: who had to do it is gone.
            run.reboots = True
            return {"not_resumed": "the host has not rebooted"}
        chain = self.chains[point["actionchain_id"]]
        point["running"] = True
        return await self._chunk(run, chain, chain.chunks[point["next_chunk"] - 1])

    async def _chunk(self, run: Run, chain: ChainManifest, chunk: ChunkManifest) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        run.epochs[str(chain.chain_id)] = chain.epoch
        for action in chunk.actions:
            failed = any(row["result"] is False for row in rows.values())
            row = _row(chunk, False, "Prerequisite failed") if failed else None
            row = row or await self._action(run, chunk, action)
            key = f"mgrcompat_|-{action.state_id}_|-x_|-module_run"
            rows[key] = {**row, "__run_num__": len(rows), "__id__": action.state_id}
        well = all(row["result"] for row in rows.values())
        if well and any(action.kind is ActionKind.reboot for action in chunk.actions):
            run.reboots = True
        # The file of this chunk goes, or becomes the one of the next.
        last = chunk.number == len(chain.chunks)
        self.pending = {}
        if well and not last:
            self.pending = {
                "actionchain_id": chain.chain_id,
                "next_chunk": chunk.number + 1,
                "boot_id": self.boot_id,
                "persist_boot_time": "",
                "running": False,
            }
            if self.names_epoch:
                self.pending["epoch"] = chain.epoch
        return rows

    async def _action(
        self, run: Run, chunk: ChunkManifest, action: ActionManifest
    ) -> dict[str, Any]:
        noted = self.journal.setdefault(action.action_id, Noted())
        if noted.row is not None:
            return noted.row
        if action.kind is ActionKind.reboot:
            noted.row = _row(chunk, True, "Rebooting")
            return noted.row
        limit = 1 if action.kind is ActionKind.once else ATTEMPTS
        if noted.attempts >= limit:
            self.interrupted += 1
            return _row(chunk, False, _INTERRUPTED)
        noted.attempts += 1
        self._mark(action.action_id, "begins")
        self._print(run, f"{action.action_id} begins\n")
        await asyncio.sleep(self.stage.rng.choice((0.1, 1.0, 8.0, 30.0)))
        self._mark(action.action_id, "ends")
        self._print(run, f"{action.action_id} ends\n")
        noted.row = _row(chunk, True, "done")
        return noted.row

    def _print(self, run: Run, text: str) -> None:
        if self.stage.prints is None:
            return
        part = m.Printed(run.begun - 1, run.printed, len(text), "stdout", text)
        run.printed += len(text)
        run.prints.append(part)
        self.stage.prints.add(self.name, run.spec.jid, Print(**encode(part)))

    def _mark(self, action_id: int, what: str) -> None:
        self.stage.tell(self.name, f"** {action_id} {what}")
        self.marks.append(Mark(action_id, what, self.boot))

    def _return(self, run: Run, value: Any, good: bool) -> JobReturn:
        now, spec = self.stage.loop.now, run.spec
        return JobReturn(
            spec.jid, spec.fun, spec.args, good, 0 if good else 2, value, now, 0.0, "highstate",
            boot_id=self.boot_id, epochs=dict(run.epochs),
        )  # fmt: skip


def _row(chunk: ChunkManifest, result: bool, comment: str) -> dict[str, Any]:
    return {
        "name": "x",
        "result": result,
        "changes": {},
        "comment": comment,
        "__sls__": chunk.sls,
        "start_time": "08:00:00.000000",
        "duration": 1.0,
    }


class SimVisit:
    """A visit of a host (`master.push.visitor.Visitor`)."""

    def __init__(self, host: SshHost, order: m.VisitOrder) -> None:
        self._host = host
        self._order = order
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._cut = asyncio.Event()
        host.visits.append(self)

    def cut(self) -> None:
        """The connection is gone."""
        self._cut.set()

    async def send(self, message: Any) -> None:
        """Send a message to the visit."""
        self._answers.put_nowait(message)

    async def end(self) -> None:
        """End it."""
        self.cut()

    async def messages(self) -> AsyncIterator[Any]:
        """Yield the messages of the visit."""
        host, spec = self._host, self._order.spec
        await asyncio.sleep(host.stage.rng.choice((0.05, 0.5, 2.0)))
        if not host.up or not host.joined:
            yield m.Troubled(VisitEnd.away.value, "Connection refused")
            return
        yield m.HostReport(f"mach-{host.name}", host.boot_id, "", "10.0.0.1", {"os": "x"},
                      dict(host.pending))  # fmt: skip
        go = await self._answer(m.Go)
        if go.on and spec is not None:
            self._check()
            run = host.begin(spec)
            yield m.Began()
            # A visit tells all of it, as it reads the journal from its begin.
            told = 0
            while True:
                for part in run.prints[told:]:
                    yield part
                told = len(run.prints)
                if run.ret is not None:
                    break
                await asyncio.sleep(0.3)
                self._check()
                host.begin(spec)
            yield m.Returned(run.ret)
            await self._answer(m.Kept)
            self._check()
            host.forget(spec.jid)
        yield m.Done()

    async def _answer(self, kind: type[Any]) -> Any:
        while True:
            found = await self._answers.get()
            if isinstance(found, kind):
                return found

    def _check(self) -> None:
        if self._cut.is_set() or not self._host.up or not self._host.joined:
            raise VisitDiedError("the connection was lost")
