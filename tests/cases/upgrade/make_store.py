"""Make a store of the version of commit 6794b20 (schema 0011) by driving that version's master.

Run it in a checkout of that commit, with an environment that has its dependencies:

    git worktree add /tmp/v0011 6794b20
    cd /tmp/v0011 && PYTHONPATH=. python …/tests/cases/upgrade/make_store.py …/tests/cases/upgrade

It imports that commit's master and test bench only, and writes for each kind of database an
archive (the database and the folder of chunk files) and what that version showed of it.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import sqlalchemy as sa
import yaml

from catena.client import requests as r
from catena.core.clock import ManualClock
from catena.core.job import JobProgress, JobReturn
from catena.core.records import encode
from catena.master import daemon
from catena.master.daemon import Master
from catena.master.keys.ring import KnownKey
from catena.master.keys.service import insert_key
from catena.master.ssh import messages as m
from catena.master.ssh.worker import WorkerParts
from catena.master.store.database import database_url
from catena.master.store.metadata import METADATA
from catena.transport.keys import KeyPair, fingerprint
from catena.transport.messages import (
    JobCancel,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    KeyAnnounce,
)
from tests.integration.master import bench as bench_module
from tests.integration.master.bench import Bench, Script, a_master
from tests.integration.master.chains.bench import key, row
from tests.integration.master.knocker import Knocker
from tests.integration.master.ssh_hosts import Visit
from tests.integration.master.ssh_hosts import Host as SshHost
from tests.support import postgres_server

COMMIT = "6794b20"
USER = "alice"
START, RESUME, CLEAN = (f"mgractionchains.{name}" for name in ("start", "resume", "clean"))
CMD: tuple[str, dict[str, Any]] = ("cmd", {"cmd": "true"})
SCRIPT: tuple[str, dict[str, Any]] = ("cmd", {"cmd": "/usr/local/sbin/migrate --all"})
REBOOT: tuple[str, dict[str, Any]] = ("reboot", {})
STATES: tuple[str, dict[str, Any]] = ("apply", {"mods": ["web"], "pillar": {"port": 81}})
UPGRADE: tuple[str, dict[str, Any]] = ("upgrade_agent", {"version": "0.9.0"})
AGENTS = tuple(f"web{number}" for number in range(1, 13))
PATIENCE_SECONDS = 30
DAY = 24 * 3600.0


class Site:
    """A master of that version, its minions, and shorthands for what people and minions do."""

    def __init__(self, master: Bench, hosts: dict[str, SshHost]) -> None:
        self.master = master
        self.hosts = hosts
        self.minions: dict[str, Script] = {}
        #: Jobs that each minion has begun with.
        self.taken: dict[str, set[str]] = {}
        self._keys = 0

    # -- people --------------------------------------------------------------------------------

    async def ask(self, verb: str, record: Any) -> Any:
        """Ask through the dispatcher, with a key as the command line does."""
        self._keys += 1
        return await self.master.dispatcher.ask("Reactor", verb, record, f"key-{self._keys}")

    async def make(
        self, label: str, tgt: str, *actions: tuple[str, dict[str, Any]], again: bool = False
    ) -> int:
        """Make a draft; return its number."""
        entries = tuple(
            {"tgt": tgt, "tgt_type": "list", "action": {"kind": kind, "data": data}}
            for kind, data in actions
        )
        made = await self.ask("chain.apply", r.ChainDocument(label, entries, again=again))
        return int(made["id"])

    async def begin(self, label: str, tgt: str, *actions: tuple[str, dict[str, Any]]) -> int:
        """Make a chain and dispatch it now."""
        chain = await self.make(label, tgt, *actions)
        await self.ask("chain.schedule", r.ChainSchedule(str(chain)))
        await self.until(lambda: self.state_is(chain, "dispatched"))
        return chain

    async def state_is(self, chain: int | str, *states: str) -> bool:
        return (await self.show(chain))["state"] in states

    async def show(self, chain: int | str) -> dict[str, Any]:
        await self.master.settle()
        shown = await self.master.chains.service.show(r.ChainRef(str(chain)), USER)
        return dict(shown)

    async def has_run(self, chain: int, minion: str, rule: str) -> bool:
        query = sa.text(f"SELECT 1 FROM chain_run WHERE chain_id=:c AND minion=:m AND {rule}")
        given = {"c": chain, "m": minion}
        return bool(await self.master.store.read(lambda conn: conn.execute(query, given).all()))

    async def ids(self, chain: int | str, minion: str) -> list[int]:
        view = await self.show(chain)
        return [
            action["action_id"]
            for one in view["minions"]
            if one["minion"] == minion
            for action in one["actions"]
        ]

    async def until(self, what: Callable[[], Any]) -> None:
        """Wait until *what* holds; its parts run by themselves."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = what()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return
                await self.master.settle()
                await asyncio.sleep(0.01)

    def pass_time(self, seconds: float) -> None:
        self.master.hand.advance(seconds)
        self.master.chains._parts.wake.set()

    # -- minions -------------------------------------------------------------------------------

    async def order(self, minion: str, fun: str) -> Any:
        """Wait for an order that was not taken before; return it."""

        def fresh() -> list[Any]:
            known = self.taken.setdefault(minion, set())
            orders = self.minions[minion].orders()
            return [spec for spec in orders if spec.fun == fun and spec.jid not in known]

        await self.until(fresh)
        found = fresh()[-1]
        self.taken[minion].add(found.jid)
        return found

    async def receive(self, minion: str, jid: str, position: int = 0) -> None:
        await self.minions[minion].say(JobReceived(jid, position))

    async def step(self, minion: str, jid: str, seq: int, **data: Any) -> None:
        progress = JobProgress(jid, seq, "action", data, self.master.hand.now().timestamp())
        await self.minions[minion].say(JobProgressed(progress))

    async def give(self, minion: str, jid: str, fun: str, value: Any, **more: Any) -> None:
        """Return a job; states as a state run does."""
        good = isinstance(value, dict) and all(
            found.get("result") is not False for found in value.values() if isinstance(found, dict)
        )
        fields = {"success": good, "retcode": 0 if good else 2, **more}
        ret = JobReturn(
            jid=jid, fun=fun, fun_args=(), value=value, duration_seconds=2.5,
            started=self.master.hand.now().timestamp() - 2.5, **fields,
        )  # fmt: skip
        await self.minions[minion].say(JobReturned(ret))

    async def at_boundary(self, minion: str, chain: int, kind: str = "system.reboot") -> str:
        """Run a chain's first chunk to its boundary; return the job."""
        jid = (await self.order(minion, START)).jid
        await self.receive(minion, jid)
        one, two, *_ = await self.ids(chain, minion)
        place = {"chain_id": chain, "chunk": 1, "epoch": 1}
        await self.step(minion, jid, 1, **place, action_id=one, event="begin")
        await self.step(minion, jid, 2, **place, action_id=one, event="end", outcome="done")
        done = row(True, "ran", changes={"retcode": 0, "stdout": "ok", "stderr": ""})
        armed = row(True, "armed")
        value = {key(chain, one, 1, "cmd.run"): done, key(chain, two, 1, kind): armed}
        await self.give(minion, jid, START, value, epochs={str(chain): 1})
        return jid

    async def boots(self, minion: str, **more: Any) -> None:
        """Connect with a new boot and a new agent process."""
        script = self.minions[minion]
        script.boot += "x"
        script.session += "x"
        await script.reconnect(boot_id=script.boot, session=script.session, wire=3, **more)


# -- scenes: each leaves chains, jobs or keys in states of their own ---------------------------


async def first_days(site: Site) -> None:
    """Chains and jobs of earlier days: archived, held, rejected, expired."""
    master = site.master
    old = await site.begin("old", "web1", CMD, CMD)
    jid = (await site.order("web1", START)).jid
    value = {key(old, each, 1, "cmd.run"): row(True) for each in await site.ids(old, "web1")}
    await site.give("web1", jid, START, value)
    await site.until(lambda: site.state_is(old, "done"))

    held = await site.make("held", "web1,web2", CMD, REBOOT)
    soon = master.hand.now().timestamp() + 2 * 3600
    await site.ask("chain.schedule", r.ChainSchedule(str(held), soon))
    master.hand.step(3 * 3600)
    master.chains._parts.wake.set()
    await site.until(lambda: site.state_is(held, "waiting"))

    late = await site.make("late", "web1", CMD)
    soon = master.hand.now().timestamp() + 60
    await site.ask("chain.schedule", r.ChainSchedule(str(late), soon))
    asked = {"tgt": "away1", "fun": "test.ping", "expiry_seconds": 600}
    await master.dispatcher.ask("Reactor", "job.run", r.RunJob(**asked))
    site.pass_time(2 * DAY)
    await site.until(lambda: site.state_is(late, "failed"))
    await master.jobs.expire()
    # Two days without a ping: the master counts every minion as gone.
    for name in AGENTS:
        await site.minions[name].reconnect(first=False, wire=3)


async def undispatched(site: Site) -> None:
    """Drafts, and chains that wait for a person or for their time."""
    master = site.master
    await site.ask("chain.create", r.ChainCreate("draft"))
    for kind, data in (CMD, STATES, REBOOT, CMD):
        action = r.ChainAction(kind, data)
        await site.ask("chain.add", r.ChainAdd("draft", "web1,web2,away1", action, "list"))
    await site.ask("chain.move", r.ChainMove("draft", 3, 0))
    await site.ask("chain.remove_entry", r.ChainRemoveEntry("draft", 1, ("web2",)))
    await site.make("empty-of-web", "away1", CMD)

    await site.make("approval", "web1,web3", SCRIPT, REBOOT, STATES)
    await site.ask("chain.schedule", r.ChainSchedule("approval", 0.0, approve_required=True))
    await site.make("scheduled", "web1,web2", STATES)
    at = master.hand.now().timestamp() + DAY
    await site.ask("chain.schedule", r.ChainSchedule("scheduled", at))
    await site.make("approved", "web1", CMD)
    await site.ask("chain.schedule", r.ChainSchedule("approved", at, approve_required=True))
    await site.ask("chain.approve", r.ChainRef("approved"))
    await site.make("cancelled", "web1,web2", CMD)
    await site.ask("chain.schedule", r.ChainSchedule("cancelled", at))
    await site.ask("chain.cancel", r.ChainRef("cancelled"))


async def ended(site: Site) -> None:
    """Chains that have ended: done, failed, failed and vouched for, retried."""
    done = await site.begin("done", "web1", CMD, STATES)
    jid = (await site.order("web1", START)).jid
    one, two = await site.ids(done, "web1")
    value = {
        key(done, one, 1, "cmd.run"): row(True, changes={"retcode": 0, "stdout": "x\n" * 20}),
        key(done, two, 1): row(True, changes={"file_|-web_|-/etc/web_|-managed": {"diff": "New"}}),
    }
    await site.give("web1", jid, START, value)
    await site.until(lambda: site.state_is(done, "done"))

    for label in ("failed", "retried"):
        chain = await site.begin(label, "web1", CMD, SCRIPT, CMD)
        jid = (await site.order("web1", START)).jid
        one, two, three = await site.ids(chain, "web1")
        value = {
            key(chain, one, 1, "cmd.run"): row(True),
            key(chain, two, 1, "cmd.run"): row(False, "exit code 3", changes={"retcode": 3}),
            key(chain, three, 1, "cmd.run"): row(False, "One or more requisite failed"),
        }
        await site.give("web1", jid, START, value)
        await site.until(lambda chain=chain: site.state_is(chain, "failed"))
    await site.ask("chain.retry", r.ChainRef("retried"))
    await site.until(lambda: site.state_is("retried", "dispatched"))

    for label in ("interrupted", "vouched"):
        chain = await site.begin(label, "web4", SCRIPT)
        jid = (await site.order("web4", START)).jid
        (one,) = await site.ids(chain, "web4")
        text = "Interrupted: the host or its agent stopped while this ran"
        await site.give("web4", jid, START, {key(chain, one, 1, "cmd.run"): row(False, text)})
        await site.until(lambda chain=chain: site.state_is(chain, "failed"))
    await site.ask("chain.resolve", r.ChainResolve("vouched", "mark_done"))
    await site.until(lambda: site.state_is("vouched", "done"))


async def running(site: Site) -> None:
    """One chain on four minions, whose actions stand in six of the eight states."""
    chain = await site.begin("running", "away1,web2,web3,web5", CMD, SCRIPT, CMD)
    jid = (await site.order("web2", START)).jid
    place = {"chain_id": chain, "chunk": 1, "epoch": 1}
    await site.receive("web2", jid)
    one, two, _ = await site.ids(chain, "web2")
    await site.step("web2", jid, 1, **place, action_id=one, event="begin")
    await site.step("web2", jid, 2, **place, action_id=one, event="end", outcome="done")
    await site.step("web2", jid, 3, **place, action_id=two, event="begin")

    await site.order("web3", START)
    one, two, three = await site.ids(chain, "web3")
    value = {
        key(chain, one, 1, "cmd.run"): row(True),
        key(chain, two, 1, "cmd.run"): row(False, "it broke"),
        key(chain, three, 1, "cmd.run"): row(False, "One or more requisite failed"),
    }
    await site.give("web3", jid, START, value)

    await site.order("web5", START)
    await site.receive("web5", jid)
    await site.minions["web5"].reconnect(first=False, wire=3)
    await site.until(lambda: has_states(site, chain, "web5", {"LOST"}))
    assert await has_states(site, chain, "web3", {"DONE", "FAILED"})
    assert await has_states(site, chain, "web2", {"DONE", "RUNNING", "NEW"})
    assert await has_states(site, chain, "away1", {"NEW"})

    await site.begin("sent", "web12", CMD, REBOOT)
    await site.order("web12", START)
    behind = await site.begin("behind", "web2", CMD)
    jid = (await site.order("web2", START)).jid
    await site.receive("web2", jid, 1)
    assert await site.state_is(behind, "dispatched")


async def has_states(site: Site, chain: int, minion: str, states: set[str]) -> bool:
    view = await site.show(chain)
    found = {a["state"] for m in view["minions"] if m["minion"] == minion for a in m["actions"]}
    return found == states


async def boundaries(site: Site) -> None:
    """Chains at a boundary: waiting for the boot, for the agent, resuming, disowned."""
    chain = await site.begin("boot", "web6", CMD, REBOOT, STATES)
    await site.at_boundary("web6", chain)
    site.minions["web6"].link.cut("it reboots")
    await site.master.settle()

    chain = await site.begin("agent", "web7", CMD, UPGRADE, CMD)
    await site.at_boundary("web7", chain, "catena.upgrade_agent")

    chain = await site.begin("resuming", "web8", CMD, REBOOT, CMD)
    await site.at_boundary("web8", chain)
    await site.boots("web8", pending_resume={"actionchain_id": chain, "next_chunk": "x_2"})
    jid = (await site.order("web8", RESUME)).jid
    await site.receive("web8", jid)
    *_, three = await site.ids(chain, "web8")
    place = {"chain_id": chain, "chunk": 2, "epoch": 1}
    await site.step("web8", jid, 1, **place, action_id=three, event="begin")

    chain = await site.begin("disowned", "web9", CMD, REBOOT, CMD)
    await site.at_boundary("web9", chain)
    await site.boots("web9")
    jid = (await site.order("web9", RESUME)).jid
    unknown = {"not_resumed": f"chain {chain} is not known here", "state": "unknown"}
    value = {**unknown, "actionchain_id": chain, "epoch": 1}
    await site.give("web9", jid, RESUME, value, success=True, retcode=0)
    await site.until(lambda: site.has_run(chain, "web9", "disowned != ''"))


async def fenced(site: Site) -> None:
    """Chains that were cancelled while they ran, and are not forgotten by their minions."""
    chain = await site.begin("fenced", "web10", CMD, REBOOT, CMD)
    await site.at_boundary("web10", chain)
    await site.ask("chain.cancel", r.ChainRef("fenced"))
    await site.order("web10", CLEAN)

    chain = await site.begin("unforgotten", "web11", CMD, REBOOT, CMD)
    await site.at_boundary("web11", chain)
    await site.ask("chain.cancel", r.ChainRef("unforgotten"))
    jid = (await site.order("web11", CLEAN)).jid
    why = "ERROR: can't remove /etc/catena/minion.d/_mgractionchains.conf: Is a directory"
    await site.give("web11", jid, CLEAN, why)


async def over_ssh(site: Site) -> None:
    """A chain under way over SSH, one at a boundary there, and a host that is not reached."""
    for host in ("db1", "db2"):
        await site.ask("chain.create", r.ChainCreate(f"ssh-{host}"))
        for kind, data in (CMD, REBOOT, CMD):
            action = r.ChainAction(kind, data)
            await site.ask("chain.add", r.ChainAdd(f"ssh-{host}", host, action, "list"))
        await site.ask("chain.schedule", r.ChainSchedule(f"ssh-{host}"))
        await site.until(lambda host=host: site.hosts[host].ran)
    await site.begin("ssh-away", "db3,web12", CMD)
    await site.until(lambda: site.hosts["db3"].visits)
    chain = (await site.show("ssh-db2"))["id"]
    one, two, _ = await site.ids(chain, "db2")
    site.hosts["db2"].value = {
        key(chain, one, 1, "cmd.run"): row(True),
        key(chain, two, 1, "system.reboot"): row(True, "armed"),
    }
    site.hosts["db2"].ends.set()
    await site.until(lambda: "db2" not in site.master.ssh.visiting())


async def plain_jobs(site: Site) -> None:
    """Jobs of every kind of delivery, with returns, progress and an idempotency key."""
    run = partial(run_job, site)
    jid = await run("web3", "test.ping")
    await site.give("web3", jid, "test.ping", True, success=True, retcode=0)
    jid = await run("web3", "cmd.run", ("false",))
    await site.give("web3", jid, "cmd.run", "", success=False, retcode=1)
    jid = await run("web3", "state.apply")
    await site.receive("web3", jid)
    told = {"id": "web", "comment": "File updated", "result": True}
    progress = JobProgress(jid, 1, "state", told, site.master.hand.now().timestamp())
    await site.minions["web3"].say(JobProgressed(progress))
    jid = await run("web3", "pkg.upgrade")
    await site.receive("web3", jid, 1)
    await run("web3", "cmd.run", ("sleep 60",))
    jid = await run("web3", "test.echo", ("x",))
    await site.minions["web3"].say(JobRejected(jid, "no such function"))
    jid = await run("away1", "test.ping")
    await site.ask("job.cancel", r.JobCancelRequest(jid))
    jid = await run("web3", "cmd.run", ("sleep 61",))
    await site.receive("web3", jid)
    await site.ask("job.cancel", r.JobCancelRequest(jid))
    await site.until(lambda: site.minions["web3"].got(JobCancel))
    await run("away1", "grains.items")
    batch = {"batch": "1", "batch_wait": 5.0, "batch_failhard": True}
    await run("away1,web4,web12", "test.version", (), **batch)
    # The late return of a job that its minion no longer named.
    jid = await run("web4", "test.sleep", (3,))
    await site.receive("web4", jid)
    await site.minions["web4"].reconnect(first=False, wire=3)
    await site.give("web4", jid, "test.sleep", True, success=True, retcode=0)


async def run_job(site: Site, tgt: str, fun: str, args: tuple[Any, ...] = (), **more: Any) -> str:
    asked = r.RunJob(tgt, fun, "list", args, metadata={"ticket": 7}, **more)
    jid = str((await site.ask("job.run", asked))["jid"])
    await site.master.settle()
    site.pass_time(1)
    return jid


async def keys_and_events(site: Site) -> None:
    """Keys in every state, a token, events of people and minions, a reaction that fails."""
    master = site.master
    for number, name in enumerate(("new1", "bad1", "new2")):
        await Knocker(master, name, f"10.0.1.{number}").ask()
    await site.ask("key.change", r.KeyChange("reject", "bad1"))
    await Knocker(master, "web1", "10.0.1.9").ask()
    await master.dispatcher.ask("Reactor", "key.token", r.TokenCreate("new9", 3600), "token-1")
    public = keys_of("web1-next").public
    await site.minions["web1"].say(KeyAnnounce(public))
    await site.ask("event.send", r.EventSend("app/hello", {"n": 1, "raw": b"\xff"}))
    await site.ask("event.send", r.EventSend("app/broken", {"n": 2}))
    await site.until(lambda: failed_reactions(master))


async def failed_reactions(master: Bench) -> bool:
    def count(conn: sa.Connection) -> int:
        table = METADATA.tables["failed_reaction"]
        return int(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())

    return bool(await master.store.read(count))


async def due(site: Site) -> None:
    """A chain whose time comes as the master stops."""
    await site.make("due", "web1,web4", CMD, REBOOT, CMD)
    at = site.master.hand.now().timestamp() + 60
    await site.ask("chain.schedule", r.ChainSchedule("due", at))


SCENES = (
    first_days, undispatched, ended, running, boundaries, fenced, over_ssh, plain_jobs,
    keys_and_events, due,
)  # fmt: skip


# -- the site ----------------------------------------------------------------------------------


class _Visit(Visit):
    """A visit that returns what its host says, and reports a chain's results."""

    async def words(self) -> AsyncIterator[Any]:
        async for word in super().words():
            if isinstance(word, m.Returned) and self._host.value is not None:
                spec = self._order.spec
                word = m.Returned(
                    JobReturn(
                        spec.jid, spec.fun, (), True, 0, self._host.value, 1.0, 2.0,
                        epochs={str(spec.chain.chain_id): 1},
                    )
                )  # fmt: skip
            yield word


def keys_of(name: str) -> KeyPair:
    """Return a key pair; only its public half is stored."""
    from catena.transport.keys import generate

    return generate()


@asynccontextmanager
async def site_at(url: str) -> AsyncIterator[Site]:
    hosts = {name: SshHost(machine_id=f"mach-{name}") for name in ("db1", "db2", "db3")}
    for host in hosts.values():
        host.value = None
    hosts["db3"].trouble = m.Troubled("away", "connect: refused")

    async def start(order: m.Order) -> Visit:
        hosts[order.host].visits.append(order)
        return _Visit(hosts[order.host], order)

    async def roster(master: Master) -> dict[str, Any]:
        return {name: {} for name in hosts}

    patches = {
        "WorkerParts": partial(WorkerParts, start=start),
        "read_boot_id": lambda: "boot-of-the-master",
        "read_host_id": lambda: "host-of-the-master",
    }
    with (
        mock.patch.multiple(daemon, **patches),
        mock.patch.object(Master, "_roster", roster),
        tempfile.TemporaryDirectory(prefix="upgrade") as folder,
    ):
        broken = Path(folder, "broken.sls")
        broken.write_text("{{ nothing.at.all() }}\n")
        settings = {
            "reactor_defaults": True,
            "reactor": [{"app/broken": [str(broken)]}],
            "roster_file": __file__,
            "chain_archive_hours": 24,
            "ping_interval_seconds": 3600,
            **({"database": url} if url else {}),
        }
        async with a_master(**settings) as master:
            await master.ssh_hosts.refresh()
            site = Site(master, hosts)
            for name in AGENTS:
                site.minions[name] = script = await master.accept(name)
                await script.hello(wire=3)
            # Start events are answered by a resume; no chain waits there yet. The reactor may have
            # begun after the first of them.
            await site.until(lambda: site.minions[AGENTS[-1]].orders())
            for name, script in site.minions.items():
                for spec in script.orders():
                    await site.give(name, spec.jid, RESUME, {}, success=True, retcode=0)
                    site.taken.setdefault(name, set()).add(spec.jid)
            site.minions["away1"] = await master.accept("away1")
            yield site


async def make(url: str, folder: Path) -> None:
    """Let everything happen on one database; put what is left into *folder*."""
    async with site_at(url) as site:
        for scene in SCENES:
            print(f"  {scene.__name__}", file=sys.stderr)
            await scene(site)
            site.pass_time(5)
            await site.master.settle()
        # From here on nothing of the master runs: the chain that is due now stays so.
        for task in site.master._tasks:
            task.cancel()
        await asyncio.gather(*site.master._tasks, return_exceptions=True)
        site.master.hand.advance(60)
        copy(database_url(site.master.settings), folder)
        state = Path(site.master.settings.state_dir)
        shutil.copytree(state / "chains", folder / "chains")
        expected = await shown(site)
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "shown.json").write_text(text + "\n", "utf-8")


def copy(url: str, folder: Path) -> None:
    if url.startswith("sqlite"):
        file = sa.make_url(url).database
        assert file is not None
        with sqlite3.connect(file) as source, sqlite3.connect(folder / "master.db") as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
        target.close()
        source.close()
        return
    made = sa.make_url(url)
    argv = ["pg_dump", "--no-owner", "--no-privileges", "-h", str(made.query["host"])]
    argv += ["-U", str(made.username), str(made.database)]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE)
    (folder / "master.sql").write_bytes(done.stdout)


async def shown(site: Site) -> dict[str, Any]:
    """Return what that version shows of the store, and how many rows each table has."""
    master = site.master
    engine = master.store

    def counts(conn: sa.Connection) -> dict[str, int]:
        query = sa.select(sa.func.count())
        return {
            table.name: int(conn.execute(query.select_from(table)).scalar_one())
            for table in METADATA.sorted_tables
        }

    chains = await master.chains.service.list(r.ChainList(all=True), USER)
    jobs = await master.views.list(r.JobList(limit=1000))
    return {
        "commit": COMMIT,
        "now": master.hand.now().timestamp(),
        "monotonic": master.hand.monotonic(),
        "chains": encode(chains),
        "shown": {str(line["id"]): await site.show(line["id"]) for line in chains},
        "jobs": {job["jid"]: encode(await master.views.show(job["jid"])) for job in jobs},
        "keys": await master.keys.list(),
        "rows": await engine.read(counts),
    }


def pack(folder: Path, out: Path) -> None:
    """Pack the database and the chunk files; keep what was shown beside them."""
    with lzma.open(out.with_suffix(".tar.xz"), "wb", preset=9) as packed, tarfile.open(
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT
    ) as archive:
        for path in sorted(folder.rglob("*")):
            info = archive.gettarinfo(path, str(path.relative_to(folder)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if path.is_file():
                with path.open("rb") as handle:
                    archive.addfile(info, handle)
            else:
                archive.addfile(info)


def main() -> None:
    out = Path(sys.argv[1])
    for name, url in (("sqlite", ""), ("postgresql", postgres_server.server().new_database())):
        print(name, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(make(url, Path(folder)))
            pack(Path(folder), out / name)
    postgres_server.stop()


if __name__ == "__main__":
    main()
