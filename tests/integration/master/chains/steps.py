"""Steps that tests of chains share: what operators, minions and time do to a bench."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa

from catena.client.replies.chains import ChainLine
from catena.client.requests.chains import ChainPause, ChainRef
from catena.core.job import FunctionCall
from catena.master.chains import fence_rows, findings
from catena.master.jobs.delivery import Delivery
from catena.master.jobs.model import JobRequest
from catena.master.store.tables import DELIVERIES, JOBS, MINIONS
from tests.integration.master.chains.bench import Bench, key, ret, row

START, RESUME, CLEAN = (f"mgractionchains.{name}" for name in ("start", "resume", "clean"))
CMD = ("cmd", {"cmd": "true"})
REBOOT: tuple[str, dict[str, Any]] = ("reboot", {})
#: Return of a clean that fails.
WHY = "ERROR: can't remove /etc/catena/minion.d/_mgractionchains.conf: Is a directory"


async def ids(bench: Bench, label: str) -> list[int]:
    """Return the numbers of a chain's actions on its first minion."""
    view = await bench.show(label)
    return [a["action_id"] for a in view["minions"][0]["actions"]]


async def bring_to_reboot(bench: Bench, label: str, *, again: bool = False) -> int:
    """Bring a chain of two commands to the reboot between them; return its number."""
    chain = await bench.begin(label, CMD, REBOOT, CMD, again=again)
    jid = (await bench.job_ids(START))[-1]
    one, two, _ = await ids(bench, str(chain))
    value = {key(chain, one, 1): row(True), key(chain, two, 1, "system.reboot"): row(True)}
    await set_delivery_state(bench, jid)
    await bench.returns(ret(jid, START, value))
    return chain


async def set_delivery_state(bench: Bench, jid: str, state: Delivery = Delivery.done) -> None:
    """Move a job's delivery as its return would."""
    change = sa.update(DELIVERIES).where(DELIVERIES.c.jid == jid).values(state=state.value)
    await bench.store.write(lambda conn: conn.execute(change))


async def resumes(bench: Bench, chain: int = 0, state: Delivery = Delivery.running) -> str:
    """Order a resume of a chain, or one that names none; return its job as it stands there."""
    kwargs = {"actionchain_id": chain, "epoch": 1} if chain else {}
    request = JobRequest("root", FunctionCall(RESUME, kwargs=kwargs), minions=bench.minions)
    jid = (await bench.jobs.submit(request)).jid
    await set_delivery_state(bench, jid, state)
    return jid


async def stopping(bench: Bench) -> list[str]:
    """Return the jobs that are being cancelled."""
    query = sa.select(DELIVERIES.c.jid).where(DELIVERIES.c.cancel != "")
    return await bench.store.read(lambda conn: list(conn.execute(query).scalars()))


async def understands(bench: Bench, wire: int) -> None:
    """Let every minion's agent be one that understands *wire*."""
    await bench.store.write(lambda conn: conn.execute(sa.update(MINIONS).values(wire=wire)))


async def cleans(bench: Bench) -> list[dict[str, Any]]:
    """Return what each clean was told, in order."""
    query = sa.select(JOBS.c.kwargs).where(JOBS.c.fun == CLEAN).order_by(JOBS.c.jid)
    return await bench.store.read(lambda conn: list(conn.execute(query).scalars()))


async def cancel(bench: Bench, label: str) -> None:
    """Cancel a chain and run the scheduler once."""
    await bench.chains.service.cancel(ChainRef(label), "alice")
    await bench.chains.scheduler.tick()


async def owed(bench: Bench) -> int:
    """Return how many runs minions have not forgotten yet."""
    pending = await bench.store.read(fence_rows.pending)
    return sum(len(fences) for fences in pending.values())


async def pass_time(bench: Bench, seconds: float) -> None:
    """Advance the clock and run the scheduler once."""
    bench.clock.advance(seconds)
    await bench.chains.scheduler.tick()


async def answers(bench: Bench, success: bool, state: Delivery = Delivery.done) -> None:
    """Let the minion return its newest clean."""
    jid = (await bench.job_ids(CLEAN))[-1]
    await set_delivery_state(bench, jid, state)
    value: Any = {"success": True, "removed": True, "runs": []} if success else WHY
    await bench.returns(ret(jid, CLEAN, value, success=success))


async def pause(bench: Bench, label: str, *minions: str) -> ChainLine:
    """Pause a chain, everywhere or on *minions*."""
    return await bench.chains.service.pause(ChainPause(label, minions), "alice")


async def continue_(bench: Bench, label: str, *minions: str) -> ChainLine:
    """Continue a paused chain, everywhere or on *minions*."""
    return await bench.chains.service.continue_(ChainPause(label, minions), "alice")


async def states(bench: Bench, fun: str) -> list[tuple[str, str]]:
    """Return minion and state of each delivery of a function's jobs."""
    query = sa.select(DELIVERIES.c.minion, DELIVERIES.c.state)
    query = query.where(DELIVERIES.c.jid.in_(await bench.job_ids(fun)))
    query = query.order_by(DELIVERIES.c.jid, DELIVERIES.c.minion)
    found = await bench.store.read(lambda conn: conn.execute(query).all())
    return [(each.minion, each.state) for each in found]


async def doctor(bench: Bench, now: float) -> list[Any]:
    """Return what `catena doctor` reports about chains while all minions are connected."""
    await bench.store.write(
        lambda conn: conn.execute(sa.update(MINIONS).values(up=True, last_seen=time.time()))
    )
    return await bench.store.read(lambda conn: list(findings.check(conn, now)))
