"""A store of schema 0011 (tests/cases/upgrade) is shown, continued and kept by this master."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainList, ChainRef, ChainResolve, ChainSchedule
from catena.client.requests.jobs import JobList
from catena.core.clock import ManualClock
from catena.core.config.folders import placed
from catena.core.config.master import MasterSettings
from catena.core.payloads import chain_of
from catena.core.records import encode
from catena.master import daemon
from catena.master.daemon import Master
from catena.master.events.failed_reactions import FailedReactionStore
from catena.master.push import messages as m
from catena.master.store import backup, schema, upkeep
from catena.master.store.database import Store, database_url
from catena.master.store.metadata import METADATA
from catena.master.store.tables import KEYS, MINIONS
from catena.transport.messages import TYPES
from catena.transport.messages.session import AGENT_WIRE
from catena.transport.peers import Peer
from catena.transport.wire import LIMITS, Packed, unpack_body
from tests.integration.master.bench import Bench, Script
from tests.integration.master.chains.bench import key, ret, row
from tests.integration.master.ssh_hosts import Host, reach
from tests.support import old_version
from tests.support.postgres_server import PostgresServer

FIXTURES = Path(__file__).parents[2] / "cases" / "upgrade"
OLD_SCHEMA = "0011"
USER = "alice"
PATIENCE_SECONDS = 60
SSH_HOSTS = ("db1", "db2", "db3")
#: Texts of the old master -> the texts of this one.
REWORDED = {
    "a person decides: ": "decide with ",
    "is to be sent;": "is not sent yet;",
    "is sent and not confirmed": "is sent but not confirmed",
    "waits for its time": "waits for its due time",
    "waits for the first look at the host": "waits for the first SSH visit to the host",
    "looked at again at": "next visit at",
    "what runs there goes on and waits for the master": (
        "its running job continues and keeps the result"
    ),
    "run 1 is to be forgotten there, and could not be": "the minion could not remove run 1",
    "run 1 is to be forgotten there": "the minion must remove run 1",
}
START, RESUME, CLEAN = (f"mgractionchains.{name}" for name in ("start", "resume", "clean"))


@dataclass(frozen=True)
class OldStore:
    """An unpacked store of the old version."""

    #: `root_dir` of a master that has this store.
    root: Path
    #: Of PostgreSQL's; "" for the SQLite file in its usual place.
    url: str
    #: What the old version showed (`shown.json`).
    shown: dict[str, Any]

    @property
    def settings(self) -> MasterSettings:
        """Return the settings of a master on this store."""
        made = MasterSettings(
            root_dir=str(self.root),
            interface="127.0.0.1",
            roster_file=__file__,
            ping_interval_seconds=3600,
            database=self.url,
        )
        return placed(made, (), self.root, "master")


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OldStore]:
    # The old version showed times of day in UTC.
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="cu") as folder:
        root, unpacked = Path(folder), Path(folder) / "unpacked"
        with tarfile.open(FIXTURES / f"{request.param}.tar.xz") as packed:
            packed.extractall(unpacked, filter="data")
        url = ""
        if request.param == "postgresql":
            url = _restored(request.getfixturevalue("postgres"), unpacked / "master.sql")
        shown = json.loads((unpacked / "shown.json").read_text("utf-8"))
        found = OldStore(root, url, shown)
        state = Path(found.settings.state_dir)
        state.mkdir(parents=True, mode=0o700)
        shutil.move(unpacked / "chains", state / "chains")
        if not url:
            shutil.move(unpacked / "master.db", upkeep.sqlite_file(database_url(found.settings)))
        yield found
    monkeypatch.undo()
    time.tzset()


def _restored(server: PostgresServer, dump: Path) -> str:
    url = server.new_database()
    made = sa.make_url(url)
    argv = ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(made.query["host"])]
    argv += ["-U", str(made.username), "-d", str(made.database), "-f", str(dump)]
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return url


class Upgraded(Bench):
    """The present master on an old store, a minute after the old one was killed."""

    def __init__(self, old: OldStore) -> None:
        self.old = old
        at = datetime.fromtimestamp(old.shown["now"], UTC)
        self.hand = ManualClock(at, old.shown["monotonic"])
        Master.__init__(self, old.settings, self.hand)
        self.scripts: dict[str, Script] = {}

    async def show(self, chain: int | str) -> dict[str, Any]:
        """Return a chain as people see it."""
        await self.settle()
        view: dict[str, Any] = encode(await self.chains.service.show(ChainRef(str(chain)), USER))
        return view

    async def ends_as(self, chain: str, state: str) -> dict[str, Any]:
        """Wait until a chain has *state*; return it."""

        async def reached() -> bool:
            return bool((await self.show(chain))["state"] == state)

        await self.until(reached)
        return await self.show(chain)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and the scheduler and the visits look."""
        self.hand.advance(seconds)
        self.chains._parts.wake.set()
        await self.ssh.tick()
        await self.until(lambda: not self.chains._parts.wake.is_set())
        await self.until(lambda: not self.ssh.visiting())

    async def reached(self, minion: str, *open_jobs: str, **more: Any) -> Script:
        """Connect a minion that the old master knew."""
        query = sa.select(KEYS.c.public_key, MINIONS.c.session)
        query = query.outerjoin(MINIONS, MINIONS.c.id == KEYS.c.minion)
        query = query.where(KEYS.c.minion == minion, KEYS.c.state == "accepted")
        known = await self.store.read(lambda conn: conn.execute(query).one())
        pair: Any = SimpleNamespace(public=known.public_key)
        script = self.scripts[minion] = Script(self, minion, pair, f"mach-{minion}")
        session = known.session or "session"
        words = {"first": False, "wire": 3, "boot_id": "boot1", "session": session, **more}
        await script.hello(*open_jobs, **words)
        return script

    async def order(self, minion: str, fun: str) -> str:
        """Wait for a minion's newest order of a function; return the job."""
        script = self.scripts[minion]
        await self.until(lambda: any(spec.fun == fun for spec in script.orders()))
        return [spec.jid for spec in script.orders() if spec.fun == fun][-1]

    async def answers(self, minion: str, jid: str, fun: str, chain: str, *chunks: int) -> None:
        """Let a minion return that the actions of some chunks of a chain went well."""
        view = await self.show(chain)
        (mine,) = [one for one in view["minions"] if one["minion"] == minion]
        value = {
            key(view["id"], one["action_id"], one["chunk"], "cmd.run"): row(True)
            for one in mine["actions"]
            if one["chunk"] in chunks
        }
        epochs = {str(view["id"]): max(one["epoch"] for one in mine["actions"])}
        await self.scripts[minion].say(_returned(ret(jid, fun, value, epochs=epochs)))

    def job_of(self, chain: str, minion: str) -> str:
        """Return the job that the old master started a chain on a minion with."""
        for jid, job in sorted(self.old.shown["jobs"].items()):
            if job["metadata"].get("chain") == self.number(chain) and minion in job["minions"]:
                return str(jid)
        raise AssertionError(f"no job of {chain} on {minion}")

    def number(self, label: str) -> int:
        """Return the number of a chain of the old master."""
        (found,) = [line["id"] for line in self.old.shown["chains"] if line["label"] == label]
        return int(found)


def _returned(value: Any) -> Any:
    from catena.transport.messages import JobReturned

    return JobReturned(value)


@asynccontextmanager
async def opened(old: OldStore, patch: pytest.MonkeyPatch) -> AsyncIterator[Upgraded]:
    """Migrate the store and look at it; nothing of the master runs."""
    reach({name: Host() for name in SSH_HOSTS}, patch)
    master = Upgraded(old)
    await master.store.open()
    await master.jobs.open()
    await master.ssh_hosts.refresh()
    try:
        yield master
    finally:
        await master.store.close()
        await master.workers.stop()


@asynccontextmanager
async def started(
    old: OldStore, patch: pytest.MonkeyPatch, reached: dict[str, Host] | None = None
) -> AsyncIterator[Upgraded]:
    """Start the whole master; no host answers over SSH but those that are *reached*."""
    away = {name: Host(trouble=m.Troubled("away", "refused")) for name in SSH_HOSTS}
    reach(reached or away, patch)
    master = Upgraded(old)
    await master.ssh_hosts.refresh()
    await master.start()
    try:
        yield master
    finally:
        await master.stop()


@pytest.fixture(autouse=True)
def _same_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the master run in the boot and on the host of the old one."""
    monkeypatch.setattr(daemon, "read_boot_id", lambda: "boot-of-the-master")
    monkeypatch.setattr(daemon, "read_host_id", lambda: "host-of-the-master")


def less(found: Any, wanted: Any) -> Any:
    """Return *found* without the fields that *wanted* does not have: newer versions show more."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {name: less(found[name], wanted[name]) for name in wanted if name in found}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [less(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def reworded(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what the old master showed, in the words of this one."""
    text = json.dumps(shown)
    for old, new in REWORDED.items():
        text = text.replace(old, new)
    words: dict[str, Any] = json.loads(text)
    return words


def plain(value: Any) -> Any:
    """Return *value* as it comes back from JSON."""
    return json.loads(json.dumps(encode(value)))


async def test_old_store_shows_every_chain_and_job_as_before(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = reworded(old.shown)
    async with opened(old, monkeypatch) as master:
        lines = plain(await master.chains.service.list(ChainList(all=True), USER))
        assert less(lines, shown["chains"]) == shown["chains"]
        for number, wanted in shown["shown"].items():
            assert less(plain(await master.show(number)), wanted) == wanted
        jobs = await master.views.list(JobList(limit=1000))
        assert {job["jid"] for job in plain(jobs)} == set(shown["jobs"])
        for jid, wanted in shown["jobs"].items():
            assert less(plain(await master.views.show(jid)), wanted) == wanted
        await master.keys.open()
        keys = plain(await master.keys.list())
        assert less(keys, shown["keys"]) == shown["keys"]


async def test_upgrade_loses_no_row_of_the_remaining_tables(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts(conn: sa.Connection) -> dict[str, int]:
        query = sa.select(sa.func.count())
        return {
            table.name: int(conn.execute(query.select_from(table)).scalar_one())
            for table in METADATA.sorted_tables
            if table.name in old.shown["rows"]
        }

    async with opened(old, monkeypatch) as master:
        found = await master.store.read(counts)
        assert found == {name: old.shown["rows"][name] for name in found}
        assert len(found) > 12


async def _resend_job(master: Upgraded) -> None:
    """Receive again a job that the old master had sent, and end it."""
    await master.reached("web12")
    await master.order("web12", START)
    await master.answers("web12", master.job_of("sent", "web12"), START, "sent", 1)
    await master.reached("web12", first=True, session="s2", boot_id="boot2")
    await master.ends_as("sent", "done")


async def _resume_by_start_event(master: Upgraded) -> None:
    """Resume chains that wait for a boot or a new agent."""
    for minion, label, more in (
        ("web6", "boot", {"boot_id": "boot2"}),
        ("web7", "agent", {"version": "0.9.0"}),
    ):
        waiting = {"actionchain_id": master.number(label)}
        await master.reached(minion, first=True, session="s2", pending_resume=waiting, **more)
        jid = await master.order(minion, RESUME)
        await master.answers(minion, jid, RESUME, label, 2)
        await master.ends_as(label, "done")


async def _keep_running_chain(master: Upgraded, old: OldStore) -> None:
    """Keep the chain that a minion works on."""
    jid = next(
        jid
        for jid, job in old.shown["jobs"].items()
        if job["fun"] == RESUME and job["minions"].get("web8", {}).get("state") == "running"
    )
    await master.reached("web8", jid, boot_id="boot1x")
    assert master.scripts["web8"].orders() == []
    await master.answers("web8", jid, RESUME, "resuming", 2)
    await master.ends_as("resuming", "done")


async def _end_chain_of_the_fleet(master: Upgraded) -> None:
    """End a chain with its last minion; the one behind it follows."""
    first, second = master.job_of("running", "web2"), master.job_of("behind", "web2")
    await master.reached("web2", first, second)
    await master.answers("web2", first, START, "running", 1)
    await master.reached("away1")
    await master.answers("away1", await master.order("away1", START), START, "running", 1)
    ended = await master.ends_as("running", "failed")
    assert ended["reason"] == "5 of 12 actions failed"
    await master.answers("web2", second, START, "behind", 1)
    await master.ends_as("behind", "done")


async def _end_retry(master: Upgraded) -> None:
    """End a retry of the old master under its epoch."""
    await master.reached("web1")
    jid = next(spec.jid for spec in master.scripts["web1"].orders())
    await master.answers("web1", jid, START, "retried", 1)
    view = await master.ends_as("retried", "done")
    assert [one["epoch"] for one in view["minions"][0]["actions"]] == [1, 2, 2]


async def test_chains_of_an_old_store_continue_on_their_minions(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(old, monkeypatch) as master:
        await master.ends_as("due", "dispatched")
        await _resend_job(master)
        await _resume_by_start_event(master)
        await _keep_running_chain(master, old)
        await _end_chain_of_the_fleet(master)
        await _end_retry(master)
        ended = {"sent", "boot", "agent", "resuming", "behind", "retried"}
        states = {label: (await master.show(label))["state"] for label in ended}
        assert states == dict.fromkeys(ended, "done")
        assert (await master.show("running"))["state"] == "failed"


@pytest.mark.parametrize("agent_wire", [3, AGENT_WIRE])
async def test_queued_chain_of_an_old_store_is_delivered_in_the_format_of_its_agent(
    old: OldStore, monkeypatch: pytest.MonkeyPatch, agent_wire: int
) -> None:
    async with started(old, monkeypatch) as master:
        sent = packed_orders(master, monkeypatch)
        script = await master.reached("away1", wire=agent_wire)
        jid = await master.order("away1", START)
        spec = next(one for one in script.orders() if one.jid == jid)
        number = master.number("running")
        assert (spec.payload is not None) and spec.payload.kind == "chain"
        assert (spec.payload.number, spec.payload.epoch) == (number, 1)
        chain = chain_of(spec)
        assert chain is not None
        assert (chain.chain_id, chain.machine_id) == (number, "mach-away1")
        folder = Path(old.settings.state_dir) / "chains"
        for chunk in chain.chunks:
            (file,) = folder.rglob(f"{chunk.sls.rpartition('.')[2]}.sls")
            assert hashlib.sha256(file.read_bytes()).hexdigest() == chunk.sha256
        (fields,) = [each for each in sent if each["jid"] == jid]
        assert ("chain" in fields, "payload" in fields) == (agent_wire == 3, agent_wire != 3)


def packed_orders(master: Upgraded, patch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list that gets the fields of each order that is sent, as they travel."""
    sent: list[dict[str, Any]] = []
    send = master.wire.send

    def spy(peer: Peer, message: Any, *more: Any) -> bool:
        if isinstance(message, Packed) and TYPES[message.number] == "JobOrder":
            sent.append(unpack_body(message.body, LIMITS["control", "minion"])["spec"])
        return send(peer, message, *more)

    patch.setattr(master.wire, "send", spy)
    return sent


async def test_decisions_apply_to_chains_of_an_old_store(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(old, monkeypatch) as master:
        service = master.chains.service
        await service.approve(ChainRef("approval"), USER)
        await service.release(ChainRef("held"), USER)
        await service.schedule(ChainSchedule("draft"), USER)
        await service.retry(ChainRef("failed"), USER)
        for label in ("approval", "held", "draft", "failed"):
            await master.ends_as(label, "dispatched")
        await service.resolve(ChainResolve("interrupted", "mark_done"), USER)
        await master.ends_as("interrupted", "done")
        await service.cancel(ChainRef("scheduled"), USER)
        await master.ends_as("scheduled", "cancelled")
        await service.delete(ChainRef("done"), USER)
        newest = await service.list(ChainList(limit=1), USER)
        assert newest[0].label == "due"
        (failed,) = await FailedReactionStore(master.store).load()
        assert failed.event.tag == "app/broken"


async def test_fenced_and_disowned_runs_of_an_old_store_end(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def removed(master: Upgraded, label: str) -> bool:
        return "remove" not in str((await master.show(label))["minions"][0]["note"])

    async with started(old, monkeypatch) as master:
        for minion, label in (("web10", "fenced"), ("web11", "unforgotten")):
            assert not await removed(master, label)
            await master.reached(minion)
            jid = await master.order(minion, CLEAN)
            done = {"success": True, "removed": True, "runs": []}
            await master.scripts[minion].say(_returned(ret(jid, CLEAN, done, success=True)))
            await master.until(partial(removed, master, label))
        for _ in range(8):
            await master.pass_time(60)
        view = await master.ends_as("disowned", "failed")
        assert view["minions"][0]["actions"][2]["state"] == "LOST"


async def test_visits_of_an_old_store_are_taken_over(
    old: OldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {name: Host(machine_id=f"mach-{name}") for name in SSH_HOSTS}
    hosts["db2"].boot_id = "b2"
    for host in hosts.values():
        host.ends.set()

    async with started(old, monkeypatch, hosts) as master:
        for _ in range(30):
            await master.pass_time(60)
            if all(host.ran for host in hosts.values()):
                break
        # Its run was begun by the old master; the visit finds the job in the store.
        assert master.job_of("ssh-db1", "db1") in [spec.jid for spec in hosts["db1"].ran]
        assert [spec.fun for spec in hosts["db2"].ran] == [RESUME]
        assert [spec.fun for spec in hosts["db3"].ran] == [START]


async def test_upgrade_of_an_old_store_keeps_a_copy_that_the_old_version_opens(
    old: OldStore, tmp_path: Path
) -> None:
    if old.url:
        pytest.skip("PostgreSQL's copies are made by its own tools")
    database = upkeep.sqlite_file(database_url(old.settings))
    before = row_counts(database)
    kept = backup.keep_before_upgrade(database)
    if schema.HEAD == OLD_SCHEMA:
        assert kept is None
        return
    assert kept is not None and kept.name.endswith(f".schema-{OLD_SCHEMA}")

    store = Store(database_url(old.settings))
    await store.open()
    await store.close()
    assert upkeep.summary(database_url(old.settings)).revision == schema.HEAD
    source = old_version.source(tmp_path)
    script = (
        "import sys; from pathlib import Path; from catena.master.store import backup, upkeep\n"
        "database, kept = map(Path, sys.argv[1:])\n"
        "backup.restore(database, kept, database.with_name('newer.db'), 1e9)\n"
        "found = upkeep.summary(f'sqlite:///{database}')\n"
        "print(found.revision, *(f'{name}={count}' for name, count in found.rows.items()))\n"
    )
    argv = [sys.executable, "-c", script, str(database), str(kept)]
    env = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    revision, *counts = done.stdout.split()
    assert revision == OLD_SCHEMA
    # A restore notes once what it has to skip.
    noted = {"fact": before["fact"] + 1}
    found = {name: int(count) for name, count in (one.split("=") for one in counts)}
    assert {**before, **noted}.items() >= {
        name: count for name, count in found.items() if name != "fact"
    }.items()


def row_counts(database: Path) -> dict[str, int]:
    """Return how many rows each table of a database has, whatever its schema."""
    with closing(sqlite3.connect(database)) as conn:
        names = conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: conn.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for (name,) in names
        }
