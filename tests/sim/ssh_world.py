"""A simulation run with hosts that are only reachable over SSH: one master, chains and faults."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import sqlite3
import traceback
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.client.requests.chains import ChainDocument, ChainRef, ChainSchedule
from catena.core.errors import CatenaError
from catena.core.job import ActionKind
from catena.master.push import messages as m
from catena.master.push.rows import OPEN_STATES
from catena.master.push.worker import WorkerParts
from catena.master.store.database import StoreUnavailableError
from catena.master.store.tables import DELIVERIES
from tests.sim.faults import DAY
from tests.sim.master import MasterHost, forget_connections
from tests.sim.prints import QUERY, Prints
from tests.sim.ssh_host import SimVisit, SshHost
from tests.sim.stage import Stage
from tests.sim.tasks import Killed
from tests.sim.world import STREAMING, Outcome

TROUBLED_SECONDS = 60.0
#: How long the healed world has to come to rest, virtual seconds.
REST_SECONDS = 900.0
#: How often it is asked whether it is at rest.
LOOK_SECONDS = 10.0
#: In every world of so many, resume files name no epoch.
EPOCHLESS = 4
_ENDS = ("done", "failed", "cancelled")


class SshWorld:
    """See the module.

    Args:
        seed: everything follows from it.
        folder: where the master's disk lies.
        faulty: False: nothing befalls it.
    """

    def __init__(self, seed: int, folder: Path, faulty: bool = True) -> None:
        self.seed, self.faulty = seed, faulty
        self.stage = Stage(seed)
        self.stage.prints = Prints() if seed >= STREAMING else None
        rng = self.rng = random.Random(seed + 3)
        self.hosts = {
            name: SshHost(self.stage, name, names_epoch=bool(seed % EPOCHLESS))
            for name in [f"s{number}" for number in range(1, rng.choice((1, 1, 2)) + 1)]
        }
        settings = {"roster_file": __file__, "ssh_reboot_minutes": 0.5}
        self.master = MasterHost(self.stage, folder, settings, {})
        self.master.patches = {"WorkerParts": partial(WorkerParts, start=self._visit)}
        self.master.roster = {name: {} for name in self.hosts}
        #: Label -> kinds of its actions.
        self.chains = {
            f"chain{number}": [
                rng.choice(("once", "idempotent", "idempotent", "reboot"))
                for _ in range(rng.randint(1, 5))
            ]
            for number in range(rng.choice((1, 1, 2)))
        }
        self.stage.reboots_work = rng.choice((1.0, 1.0, 0.6))
        self.violations: list[str] = []
        #: What the master said of each host, last.
        self.notes: list[str] = []

    async def _visit(self, order: m.VisitOrder) -> SimVisit:
        return SimVisit(self.hosts[order.host], order)

    # -- people ----------------------------------------------------------------------------------

    async def _ask(self, what: Any) -> Any:
        """Ask the chain service, again and again while the master is away or says no."""
        while True:
            master = self.master.master
            if master is not None and self.master.ready:
                asked = self.stage.person(what(master.chains.service))
                while not asked.done() and self.master.master is master:
                    await asyncio.wait({asked}, timeout=0.2)
                if asked.done() and asked.exception() is None:
                    return asked.result()
                asked.cancel()
            await asyncio.sleep(1.0)

    async def _want(self, label: str) -> None:
        entries: list[dict[str, Any]] = []
        for kind in self.chains[label]:
            action: dict[str, Any] = {"kind": "reboot"}
            if kind != "reboot":
                data = {"fun": "test.ping"}
                action = {"kind": "call", "data": data, "repeat": kind}
            entries.append({"tgt": ",".join(self.hosts), "tgt_type": "list", "action": action})
        document = ChainDocument(label, tuple(entries))
        await self._ask(lambda s: _unless_there(s, document))
        await self._ask(lambda s: _unless_scheduled(s, label))

    async def _state(self, label: str) -> str:
        shown = await self._ask(lambda s: s.show(ChainRef(label), "root"))
        self.notes = [f"{one.minion}: {one.note}" for one in shown.minions]
        return str(shown.state)

    # -- what befalls it -------------------------------------------------------------------------

    def _plan(self) -> None:
        kinds = (
            self._cut_power, self._cut_cable, self._part, self._kill_run, self._kill_master,
            self._cut_master, self._in_a_commit, self._in_a_commit, self._set_clock,
        )  # fmt: skip
        for _ in range(self.rng.choice((1, 2, 4, 8))):
            self.stage.later(self.rng.uniform(3.0, TROUBLED_SECONDS), self.rng.choice(kinds))

    def _host(self) -> SshHost:
        return self.rng.choice(list(self.hosts.values()))

    def _cut_power(self) -> None:
        self._host().power_cut(self.rng.choice((1.0, 10.0, 50.0)))

    def _cut_cable(self) -> None:
        host = self._host()
        self.stage.tell(host.name, "connections are cut")
        host.cut()

    def _part(self) -> None:
        host = self._host()
        self.stage.tell(host.name, "is parted")
        host.joined = False
        self.stage.later(self.rng.choice((3.0, 30.0, 80.0)), lambda: _join(host))

    def _kill_run(self) -> None:
        self._host().kill_run()

    def _kill_master(self) -> None:
        self.master.kill()

    def _cut_master(self) -> None:
        self.master.kill(cut=True)

    def _in_a_commit(self) -> None:
        self.master.commits_left = self.rng.randint(0, 30)

    def _set_clock(self) -> None:
        self.master.clock.wrong += self.rng.choice((-DAY, -100.0, 100.0))
        self.stage.tell("master", f"clock is wrong by {self.master.clock.wrong:.0f} s")

    # -- running ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        self.master.start()
        await asyncio.gather(*(self._want(label) for label in self.chains))
        if self.faulty:
            self._plan()
            await asyncio.sleep(TROUBLED_SECONDS + 30.0)
        self.master.commits_left = None
        self.stage.reboots_work = 1.0
        self.stage.tell("world", "is healed")
        end = self.stage.loop.now + REST_SECONDS
        states: dict[str, str] = {}
        while self.stage.loop.now < end:
            await asyncio.sleep(LOOK_SECONDS)
            states = {label: await self._state(label) for label in self.chains}
            if set(states.values()) <= set(_ENDS) and not any(
                map(self._busy, self.hosts.values())
            ):
                break
        self._judge(states)

    def _judge_organs(self) -> None:
        """None of the master's own tasks ends by itself."""
        master = self.master.master
        for task in master._tasks if master is not None else ():
            if task.done() and not task.cancelled():
                error = task.exception()
                text = "".join(traceback.format_exception(error)) if error else ""
                self._wrong(f"{task.get_name()} of the master has ended: {text}")

    def _judge(self, states: dict[str, str]) -> None:
        self._judge_organs()
        self._judge_output()
        known = sum(host.interrupted for host in self.hosts.values())
        for label, state in states.items():
            if state not in _ENDS:
                self._wrong(f"{label} is {state}, long after everything was mended: {self.notes}")
            elif state != "done" and not known:
                self._wrong(f"{label} is {state}, and nothing was interrupted")
        for host in self.hosts.values():
            self._judge_marks(host, states)
            if self._busy(host):
                self._wrong(f"{host.name} keeps {list(host.runs)} {host.pending}")

    def _busy(self, host: SshHost) -> bool:
        """Return whether a host is not at rest.

        A run may stay there whose return is stored: the master died before the host could be told,
        which deletes it by itself after a week.
        """
        waits = bool(host.pending) or not host.up
        return waits or bool(host.runs and self._open_jobs() & set(host.runs))

    def _open_jobs(self) -> set[str]:
        with closing(sqlite3.connect(self.master.database)) as conn:
            query = sa.select(DELIVERIES.c.jid).where(DELIVERIES.c.state.in_(OPEN_STATES))
            text = str(query.compile(compile_kwargs={"literal_binds": True}))
            return {jid for (jid,) in conn.execute(text)}

    def _judge_output(self) -> None:
        """What is stored of the jobs' output was printed, and nothing is there twice."""
        prints = self.stage.prints
        if prints is None:
            return
        with closing(sqlite3.connect(self.master.database)) as conn:
            conn.row_factory = sqlite3.Row
            rows = conn.execute(QUERY).fetchall()
        for what in prints.wrong(rows):
            self._wrong(what)
        stored = {(row["minion"], row["jid"]) for row in rows}
        for minion, jid in prints.jobs() if not self.faulty else ():
            if (minion, jid) not in stored:
                self._wrong(f"nothing is stored of what job {jid} printed on {minion}")

    def _judge_marks(self, host: SshHost, states: dict[str, str]) -> None:
        kinds = {
            action.action_id: action.kind
            for chain in host.chains.values()
            for chunk in chain.chunks
            for action in chunk.actions
        }
        begun = [mark.action_id for mark in host.marks if mark.what == "begins"]
        ended = [mark.action_id for mark in host.marks if mark.what == "ends"]
        for action, kind in kinds.items():
            if kind is ActionKind.once and begun.count(action) > 1:
                self._wrong(
                    f"{host.name} did {action}, which is once, {begun.count(action)} times"
                )
            if ended.count(action) > 1:
                self._wrong(f"{host.name} ended {action} {ended.count(action)} times")
        if set(states.values()) == {"done"}:
            wanted = [action for action, kind in kinds.items() if kind is not ActionKind.reboot]
            if sorted(set(ended)) != sorted(wanted):
                self._wrong(f"{host.name} ended {ended}, not {wanted}")
        for chain in host.chains.values():
            order = [a.action_id for chunk in chain.chunks for a in chunk.actions]
            mine = [action for action in begun if action in order]
            if mine != sorted(mine, key=order.index):
                self._wrong(f"{host.name} began {mine}, out of order")
            self._judge_reboots(host, order, kinds)

    def _judge_reboots(
        self, host: SshHost, order: list[int], kinds: dict[int, ActionKind]
    ) -> None:
        """What stands behind a reboot runs in another boot."""
        boots = {mark.action_id: mark.boot for mark in host.marks}
        for place, action in enumerate(order):
            if kinds[action] is not ActionKind.reboot:
                continue
            before = [boots[one] for one in order[:place] if one in boots]
            after = [boots[one] for one in order[place:] if one in boots]
            if before and after and max(before) >= min(after):
                self._wrong(f"{host.name} went over reboot {action} without one")

    def _wrong(self, text: str) -> None:
        self.stage.tell("WRONG", text)
        self.violations.append(text)

    def run(self) -> Outcome:
        """Let it happen."""
        loop = self.stage.loop
        with ExitStack() as stack:
            stack.enter_context(self.stage.tap.opened())
            stack.callback(self._end)
            loop.set_exception_handler(self._unhandled)
            loop.run_until_complete(self.stage.person(self._live()))
        found = [*self.stage.faults, *self.violations]
        return Outcome(self.seed, found, self.stage.trace, {"virtual_seconds": int(loop.now)})

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # The last breath of a master that was killed.
        if isinstance(error, (Killed, asyncio.CancelledError, StoreUnavailableError, CatenaError)):
            return
        text = "".join(traceback.format_exception(error)) if error else ""
        self.stage.fault(f"{context.get('message')} {text}")

    def _end(self) -> None:
        if self.master.master is not None:
            self.master.kill()
        self.stage.loop.end()
        # Somebody may have asked after the master's end.
        forget_connections()


def _join(host: SshHost) -> None:
    host.joined = True


async def _unless_there(service: Any, document: ChainDocument) -> None:
    try:
        await service.show(ChainRef(document.label), "root")
    except CatenaError:
        await service.apply(document, "root")


async def _unless_scheduled(service: Any, label: str) -> None:
    shown = await service.show(ChainRef(label), "root")
    if shown.state == "draft":
        await service.schedule(ChainSchedule(label), "root")


def run(seed: int, below: Path, faulty: bool = True) -> Outcome:
    """Let the world of *seed* happen in a folder below *below*; return what came of it."""
    here = below / f"ssh-{seed}"
    here.mkdir()
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return SshWorld(seed, here, faulty).run()
    finally:
        logging.disable(before)
        shutil.rmtree(here, ignore_errors=True)
