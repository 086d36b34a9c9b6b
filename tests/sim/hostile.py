"""A hostile minion: its key is accepted, and it sends any message that the protocol allows.

It knows all that the master's database holds: job ids, chains, epochs and actions of the honest
minions. Everything that it sends is well-formed for its socket; what no grammar can refuse must be
refused, or ignored, by its meaning.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from catena.core.errors import CatenaError
from catena.core.job import JobProgress, JobReturn, JobSpec
from catena.transport import messages as m
from catena.transport.agent import Connected, Lost, Received
from tests.sim.clockwork import BEGIN
from tests.sim.network import SimLink
from tests.sim.store_views import EXECUTION

NAME = "evil"
#: Job ids that no master made, beside those that are made of the time.
SENSELESS = (
    "99999999999999999999",
    "00000000000000000000",
    "20260230250000000000",
    "2026-01-05",
    "9" * 40,
    "../../jobs",
    "x",
    "",
)
HUGE = (0, -1, 2**31, 2**62, 2**63 - 1)
_JOB_FUNCTIONS = (
    "mgractionchains.start",
    "mgractionchains.resume",
    "mgractionchains.clean",
    "test.ping",
)


class Hostile:
    """See the module.

    Args:
        world: in which it lives.
        key: its public key.
        seconds: for how long it is at work, virtual.
    """

    def __init__(self, world: Any, key: str, seconds: float) -> None:
        self._world, self._stage = world, world.stage
        self._rng = random.Random(world.seed + 7)
        self._seconds = seconds
        self._link = SimLink(self._stage.network, NAME, key, lambda: None)
        self._orders: list[JobSpec] = []
        self._deeds: list[Callable[[], list[Any]]] = [
            self._senseless_return,
            self._senseless_return,
            self._foreign_return,
            self._foreign_return,
            self._foreign_progress,
            self._foreign_receipt,
            self._event,
            self._event,
            self._own_return,
            self._own_return,
            self._question,
            self._hello,
        ]
        #: Events of starts that it fired: each may make the master send a resume.
        self.starts = 0

    async def live(self) -> None:
        """Connect, and do something evil now and then."""
        pace = self._rng.choice((0.3, 1.0, 3.0))
        end = self._stage.loop.now + self._seconds
        while self._stage.loop.now < end:
            for event in self._link.service(0.0):
                self._heard(event)
            if self._link._connection is not None:
                for message in self._rng.choice(self._deeds)():
                    self._send(message)
            await asyncio.sleep(self._rng.uniform(0.2, 2.0) * pace)
        self._link.close()

    def _heard(self, event: Any) -> None:
        if isinstance(event, Connected):
            self._send(self._greeting())
        elif isinstance(event, Received):
            message = event.envelope.message
            if isinstance(message, m.JobOrder):
                self._orders.append(message.spec)
        else:
            assert isinstance(event, Lost)

    def _send(self, message: Any) -> None:
        bulk = isinstance(message, (m.ManifestRequest, m.ChunkRequest, m.FilesRequest))
        try:
            self._link.send("bulk" if bulk else "control", message)
        except CatenaError as error:
            self._stage.tell(NAME, f"can't even say {type(message).__name__}: {error}")

    # -- what it knows -------------------------------------------------------------------------

    def _peek(self, query: str) -> dict[str, Any]:
        rows = self._world.checker.ask(query)
        return dict(self._rng.choice(rows)) if rows else {}

    def _foreign_job(self) -> dict[str, Any]:
        """Return a job of an honest minion, mostly one that has not ended."""
        found = self._peek(
            "SELECT j.jid, j.fun FROM job j JOIN delivery d ON d.jid = j.jid"
            f" WHERE d.minion != '{NAME}' ORDER BY j.jid DESC LIMIT 4"
        )
        return found or {"jid": self._made_up(), "fun": self._rng.choice(_JOB_FUNCTIONS)}

    def _action(self) -> dict[str, Any]:
        """Return an action of a chain of an honest minion."""
        found = self._peek(
            f"SELECT chain_id, action_id, epoch, chunk, minion FROM {EXECUTION}"
            " ORDER BY id DESC LIMIT 12"
        )
        return found or {"chain_id": 1, "action_id": 1, "epoch": 1, "chunk": 1, "minion": "m1"}

    def _made_up(self) -> str:
        """Return a job id that nobody made."""
        ahead = BEGIN + timedelta(seconds=self._stage.loop.now + self._rng.uniform(-3600, 3600))
        return str(
            self._rng.choice(
                (
                    *SENSELESS,
                    f"{ahead:%Y%m%d%H%M%S}999999",
                    f"{ahead:%Y%m%d%H}99999999",
                    f"{ahead:%Y%m%d%H%M%S%f}",
                )
            )
        )

    # -- what it says --------------------------------------------------------------------------

    def _greeting(self) -> m.Hello:
        rng = self._rng
        machine = rng.choice(("mach-evil", "mach-evil", "mach-m1"))
        jobs = tuple(self._foreign_job()["jid"] for _ in range(rng.choice((0, 0, 3))))
        action = self._action()
        pending = {"actionchain_id": action["chain_id"], "epoch": rng.choice(HUGE)}
        return m.Hello(
            id=rng.choice((NAME, NAME, NAME, "m1")),
            machine_id=machine,
            boot_id=f"boot-evil-{rng.randint(1, 9)}",
            session=f"evil-{rng.randint(1, 10**6)}",
            version="0.1.0",
            role="minion",
            first=rng.random() < 0.5,
            grains={"id": "m1", "machine_id": "mach-m1"},
            open_jobs=jobs,
            pending_resume=rng.choice(({}, pending)),
        )

    def _hello(self) -> list[Any]:
        return [self._greeting()]

    def _result(self) -> dict[str, Any]:
        """Return a value that says that an action of somebody else is done."""
        action = self._action()
        name = (
            f"mgr_actionchain_{action['chain_id']}_action_{action['action_id']}"
            f"_chunk_{action['chunk']}"
        )
        key = f"module_|-{name}_|-{name}_|-run"
        state = {"result": self._rng.random() < 0.8, "comment": "evil", "changes": {}}
        return {key: {**state, "name": name, "__id__": name, "__run_num__": 0}}

    def _return(self, jid: str, fun: str) -> m.JobReturned:
        rng, action = self._rng, self._action()
        epoch = rng.choice((action["epoch"], action["epoch"] - 1, *HUGE))
        value = rng.choice((self._result(), {}, "evil", {"not_resumed": "evil"}, None, [1]))
        return m.JobReturned(
            JobReturn(
                jid=jid,
                fun=fun,
                fun_args=(),
                success=rng.random() < 0.7,
                retcode=rng.choice((0, 1, 2)),
                value=value,
                started=rng.choice((0.0, -1.0, 1e18)),
                duration_seconds=rng.choice((0.0, -5.0, 1e12)),
                boot_id=rng.choice(("", "boot-m1-1", "boot-m1-2")),
                epochs={str(action["chain_id"]): epoch},
            )
        )

    def _senseless_return(self) -> list[Any]:
        return [self._return(self._made_up(), self._rng.choice(_JOB_FUNCTIONS))]

    def _foreign_return(self) -> list[Any]:
        job = self._foreign_job()
        return [self._return(job["jid"], job["fun"])]

    def _foreign_progress(self) -> list[Any]:
        action, rng = self._action(), self._rng
        data = {
            "chain": action["chain_id"],
            "epoch": action["epoch"],
            "action_id": action["action_id"],
            "chunk": action["chunk"],
            "event": rng.choice(("begin", "end")),
            "result": True,
        }
        jid = rng.choice((self._foreign_job()["jid"], self._made_up()))
        return [m.JobProgressed(JobProgress(jid, rng.choice((1, 2, 10**9)), "action", data, 0.0))]

    def _foreign_receipt(self) -> list[Any]:
        jid = self._rng.choice((self._foreign_job()["jid"], self._made_up()))
        received = m.JobReceived(jid, self._rng.choice((0, 7)))
        return [self._rng.choice((received, m.JobRejected(jid, "it came too late")))]

    def _event(self) -> list[Any]:
        rng, action = self._rng, self._action()
        tag = rng.choice(
            (
                "salt/minion/m1/start",
                "minion_start",
                f"catena/chain/{action['chain_id']}/done",
                f"salt/job/{self._foreign_job()['jid']}/ret/m1",
            )
        )
        self.starts += "start" in tag
        data = {"id": "m1", "minion": "m1", "cmd": "_minion_event", "resume": {"epoch": 2**62}}
        event = m.EventFired(f"evil-{rng.randint(1, 20)}", tag, data)
        return [event, event] if rng.random() < 0.3 else [event]

    def _own_return(self) -> list[Any]:
        """Return a job that it was given: twice, before its receipt, or with a foreign result."""
        if not self._orders:
            return self._senseless_return()
        spec = self._rng.choice(self._orders)
        made = self._return(spec.jid, self._rng.choice((spec.fun, *_JOB_FUNCTIONS)))
        return [made, self._return(spec.jid, spec.fun), m.JobReceived(spec.jid, 3)]

    def _question(self) -> list[Any]:
        chunk = self._peek("SELECT file FROM chain_chunk")
        path = f"actionchains/{chunk.get('file', 'actionchain_1_mach-m1_1.sls')}"
        return [
            self._rng.choice(
                (
                    m.ChunkRequest("base", path, "", self._rng.choice((0, 10**9))),
                    m.ManifestRequest("base"),
                    m.PillarRequest("base", "base", {"id": "m1"}),
                    m.Goodbye("evil"),
                )
            )
        ]
