"""The master under simulation: its real composition root, on a simulated host."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master import daemon
from catena.master.chains import dependencies
from catena.master.chains.dependencies import ChainRules
from catena.master.chains.engine import Chains
from catena.master.daemon import Master
from catena.master.store import backup
from catena.master.store.database import Store, StoreUnavailableError, _Work
from catena.master.store.fast.pending import Pending
from catena.master.workers import tasks as worker_tasks
from catena.transport.gateway import Gateway
from catena.transport.keys import fingerprint
from tests.sim.disk import Disk
from tests.sim.network import SimGateway
from tests.sim.stage import Stage
from tests.sim.tasks import Killed, Program
from tests.support.engines import chains_of

#: How soon the service manager starts a master that has ended.
RESTART_SECONDS = 3.0
#: How long it waits for a boot, or for word of a run.
BOUNDARY_SECONDS = 240.0
#: How long the start of a chain waits where a minion can't forget an ended chain.
CLEAN_WAIT_SECONDS = 30.0
_ENGINES: dict[tuple[str, bool], sa.Engine] = {}


class SimStore(Store):
    """The store with its writer in the loop; what is committed is durable, at once and wholly."""

    host: MasterHost

    def __init__(self, url: str, *, alone: bool = False) -> None:
        super().__init__(url, alone=alone)
        self._pending: list[_Work] = []
        self._due: Any = None
        self._closed = True

    def _engine(self, *, writer: bool) -> sa.Engine:
        # One for all worlds, which have their databases at one place in turn: to compile the
        # statements anew for each would cost more than to run them.
        key = str(self._url), writer
        if key not in _ENGINES:
            _ENGINES[key] = super()._engine(writer=writer)
        return _ENGINES[key]

    async def open(self) -> None:
        """As Store.open."""
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, self._prepare)
        self._conn = self._write_engine.connect()
        self._closed = False

    async def close(self) -> None:
        """As Store.close."""
        if not self._closed:
            self._commit_pending()
        self.vanish()

    def vanish(self) -> None:
        """The program is gone, and what it had not committed."""
        self._pending.clear()
        if self._closed:
            return
        self._closed = True
        self._conn.close()
        self._write_engine.dispose()
        self._read_engine.dispose()

    def post(self, fn: Any, *, lazy: bool = False) -> asyncio.Future[Any]:
        """As in Store, without its thread."""
        future: asyncio.Future[Any] = self._opened().create_future()
        self._take(_Work(future, lazy, fn))
        return future

    def post_item(self, bulk: Any, item: Any, *, lazy: bool = False) -> Pending:
        """As in Store, without its thread."""
        self._opened()
        pending = Pending()
        self._take(_Work(pending, lazy, None, bulk, item))
        return pending

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._closed or self._loop is None:
            raise StoreUnavailableError("the store is closed")
        return self._loop

    def _take(self, work: _Work) -> None:
        assert self._loop is not None
        self._pending.append(work)
        delay = self.host.stage.rng.choice((0.001, 0.01)) + (0.05 if work.lazy else 0.0)
        when = self._loop.time() + delay
        if self._due is None or when < self._due.when():
            if self._due is not None:
                self._due.cancel()
            self._due = self._loop.call_at(when, self._commit_pending)

    def _commit_pending(self) -> None:
        self._due = None
        group, self._pending = self._pending, []
        if not group or self._closed or self.host.dies("before a commit"):
            return
        with self.host.stage.turn.of(self.host.program):
            self._commit_group(self._conn, group)

    def _commit(self, conn: sa.Connection, group: list[_Work]) -> Any:
        if self.host.full:
            # It is found at the end, when all is done but the commit.
            with conn.begin() as transaction:
                for work in group:
                    with suppress(Exception):
                        work.run(conn)
                transaction.rollback()
            cause = sqlite3.OperationalError("database or disk is full")
            raise sa.exc.OperationalError("COMMIT", {}, cause)
        return super()._commit(conn, group)

    def _report(self, outcomes: Any) -> None:
        if not self.host.dies("after a commit"):
            super()._report(outcomes)


class _Workers:
    """A double of the pool of worker processes, which runs the tasks in this process."""

    def __init__(
        self,
        settings: dict[str, Any],
        count: int,
        timeout_seconds: float,
        engine_tasks: Mapping[str, str] | None = None,
    ) -> None:
        self._kept: dict[tuple[str, str], Any] = {}

    async def call(self, task: str, params: Mapping[str, Any], queue: str = "") -> Any:
        """Run a task and return its value."""
        await asyncio.sleep(0.01)
        if task == "pillar":
            return {"pillar": {}, "errors": []}
        if task == "roster":
            return SimMaster.host.roster
        assert task == "reactions"
        data = params["data"]
        key = (params["file"], f"{data.get('id')} {data.get('resume')}")
        if key not in _REACTIONS:
            _REACTIONS[key] = worker_tasks.reactions(_SETTINGS[-1], params)
        return _REACTIONS[key]

    async def stop(self) -> None:
        """Nothing to stop."""


_SETTINGS: list[MasterSettings] = []
_REACTIONS: dict[tuple[str, str], Any] = {}


class _NoSocket:
    """In place of the socket for commands: people ask the dispatcher."""

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close."""


class _Rules(ChainRules):
    """Rules of chains that give up earlier, so that no world has to last for hours."""

    @classmethod
    def of(cls, settings: MasterSettings) -> ChainRules:
        """As ChainRules.of."""
        return replace(
            ChainRules.of(settings),
            boundary_seconds=BOUNDARY_SECONDS,
            silent_seconds=BOUNDARY_SECONDS,
            clean_wait_seconds=CLEAN_WAIT_SECONDS,
        )


class SimMaster(Master):
    """The master on a simulated host."""

    host: MasterHost

    @property
    def chains(self) -> Chains:
        """Return its chains."""
        return chains_of(self)

    def make_gateway(self) -> Gateway:
        """Return simulated sockets."""
        network = self.host.stage.network
        made = SimGateway(network, self.accepted, self._heard, self._on_gone)
        return made  # type: ignore[return-value]  # it stands for one

    def _heard(self, peer: Any, envelope: Any) -> Any:
        with self.host.stage.turn.of(self.host.program):
            return self._on_message(peer, envelope)


class MasterHost:
    """The host of the master.

    Args:
        stage: what everything stands on.
        folder: where its disk lies.
        settings: of the master, beside its folders.
        keys: public key of each accepted minion.
    """

    def __init__(
        self, stage: Stage, folder: Path, settings: Mapping[str, Any], keys: Mapping[str, str]
    ) -> None:
        self.stage = stage
        self.clock = stage.clock()
        self.root = folder / "master"
        self.root.mkdir(mode=0o700, parents=True)
        for part in ("state", "pki", "cache"):
            (self.root / part).mkdir(mode=0o700)
        self.disk = Disk(self.root)
        # Outside of the simulated disk: SQLite's own promise is taken for granted.
        self.database = folder.parent / "master.db"
        for path in folder.parent.glob("master.db*"):
            path.unlink()
        shutil.copy(template(folder.parent), self.database)
        self._accept(keys)
        self.settings = self._below_root(settings)
        _SETTINGS[:] = [self.settings]
        self.disk.sync_all()
        stage.tap.watch(self.disk)
        self.boots = 1
        self.program = Program("master", self)
        stage.loop.around = lambda: stage.turn.of(self.program)
        self.master: SimMaster | None = None
        self.ready = False
        self.full = False
        #: Commits that this master survives; None: all.
        self.commits_left: int | None = None
        #: By a power cut of its host.
        self.dies_by_cut = False
        #: The hosts that SSH reaches, and what stands in the place of more parts of the master.
        self.roster: dict[str, Any] = {}
        self.patches: dict[str, Any] = {}
        #: On how many hosts the store has been.
        self.hosts = 1
        #: Begin and end of each time of which a restored store knows nothing.
        self.forgotten: list[tuple[float, float]] = []
        self._backup: tuple[Path, float] | None = None
        #: Whether its clock was once set forward between a power cut and the next start, so that
        #: no master could notice it.
        self.was_set_forward_unseen = False
        #: By how much the clock was wrong at the power cut after which no master started yet.
        self._wrong_at_cut: float | None = None

    def _below_root(self, settings: Mapping[str, Any]) -> MasterSettings:
        return MasterSettings(
            state_dir=str(self.root / "state"),
            pki_dir=str(self.root / "pki"),
            cache_dir=str(self.root / "cache"),
            run_dir=str(self.root / "run"),
            database=f"sqlite:///{self.database}",
            file_roots={},
            **settings,
        )

    def _accept(self, keys: Mapping[str, str]) -> None:
        with sqlite3.connect(self.database) as base:
            for minion, key in keys.items():
                base.execute(
                    "INSERT INTO minion_key (minion, public_key, fingerprint, state, machine_id,"
                    " since, seen) VALUES (?, ?, ?, 'accepted', ?, 0, 0)",
                    (minion, key, fingerprint(key), f"mach-{minion}"),
                )
        base.close()

    def start(self) -> None:
        """Start a master process."""
        if self.master is not None:
            return
        self.program = Program("master", self)
        self.stage.tell("master", "starts")
        if self._wrong_at_cut is not None:
            self.was_set_forward_unseen |= self.clock.wrong > self._wrong_at_cut
            self._wrong_at_cut = None
        patches: dict[str, Any] = {
            "Store": SimStore,
            "Workers": _Workers,
            "read_boot_id": lambda: f"boot-master-{self.boots}",
            "read_host_id": lambda: f"host-{self.hosts}",
            "LocalServer": lambda *_: _NoSocket(),
            **self.patches,
        }
        SimStore.host = SimMaster.host = self
        try:
            with (
                mock.patch.multiple(daemon, **patches),
                mock.patch.object(dependencies, "ChainRules", _Rules),
                self.stage.turn.of(self.program),
            ):
                self.master = SimMaster(self.settings, self.clock)
        except (Killed, CatenaError, OSError) as error:
            self.stage.tell("master", f"can't start: {error!r}")
            self.program.dead = True
            self.stage.later(RESTART_SECONDS, self.start)
            return
        self.stage.loop.create_task(self._begin(self.master))

    async def _begin(self, master: SimMaster) -> None:
        try:
            await master.start()
            self.ready = True
        except (CatenaError, OSError) as error:
            self.stage.tell("master", f"can't start: {error}")
            self.kill()
        except Exception as error:  # noqa: BLE001  # what would end the process
            text = "".join(traceback.format_exception(error))
            self.stage.fault(f"the master can't start: {text}")
            self.kill()

    def dies(self, where: str) -> bool:
        """Return whether the program is dead; perhaps it dies here."""
        if self.program.dead:
            return True
        if self.commits_left is not None:
            self.commits_left -= 1
            if self.commits_left < 0:
                self.commits_left = None
                self.stage.tell("master", f"dies {where}")
                self.kill(self.dies_by_cut)
        return self.program.dead

    def kill(self, cut: bool = False) -> None:
        """SIGKILL, or a power cut of its host."""
        master, self.master = self.master, None
        if master is None:
            return
        self.ready = False
        self.program.dead = True
        assert isinstance(master.store, SimStore)
        assert isinstance(master.gateway, SimGateway)
        master.store.vanish()
        master.gateway.vanish()
        self.stage.soon(lambda: self._bury(master, cut))

    # -- people who look after the store -------------------------------------------------------

    def back_up(self) -> None:
        """Back up the store; the master may run."""
        if self._backup is None:
            path = self.database.with_name("master.db.backup")
            backup.back_up(self.database, path)
            self._backup = path, self.stage.loop.now
            self.stage.tell("master", "its store is backed up")

    def restore(self) -> None:
        """Stop the master and put the backup in the place of its store."""
        if self._backup is None:
            return
        self.kill()
        forget_connections()
        path, since = self._backup
        aside = self.database.with_name(f"master.db.before-{len(self.forgotten)}")
        backup.restore(self.database, path, aside, self.clock.now().timestamp())
        self.forgotten.append((since, self.stage.loop.now))
        self.stage.tell("master", f"its store is restored from {since:.3f}")

    def move(self, uptime: float, step: float) -> None:
        """Stop the master; its store goes on on another host.

        Args:
            uptime: how long that host has been up, seconds.
            step: by how much more its wall clock is wrong, seconds.
        """
        self.kill()
        self.hosts += 1
        self.boots += 1
        self.clock.move(uptime)
        self.clock.wrong += step
        self.stage.tell("master", f"its store moves to host {self.hosts}, up for {uptime:.0f} s")

    def _bury(self, master: SimMaster, cut: bool) -> None:
        for task in asyncio.all_tasks(self.stage.loop):
            if task not in self.stage.people:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                task.cancel()
        kept = ""
        if cut:
            with self.stage.tap.aside():
                kept = f"; power cut; {self.disk.cut(self.stage.rng)}"
            self.boots += 1
            self.clock.boot()
            self._wrong_at_cut = self.clock.wrong
        self.stage.tell("master", f"is gone{kept}")
        self.stage.later(RESTART_SECONDS * self.stage.rng.uniform(0.3, 4), self.start)


def forget_connections() -> None:
    """Close what still reads a database that the next world replaces."""
    for engine in _ENGINES.values():
        engine.dispose()


def template(folder: Path) -> Path:
    """Return an empty database with the newest schema, made once below *folder*."""
    path = folder / "template.db"
    if not path.exists():
        from catena.master.store import schema

        engine = sa.create_engine(f"sqlite:///{path}.new")
        schema.upgrade(engine)
        engine.dispose()
        Path(f"{path}.new").rename(path)
    return path


__all__ = ["Killed", "MasterHost", "SimMaster", "SimStore", "forget_connections", "template"]
