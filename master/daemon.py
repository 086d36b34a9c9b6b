"""The composition root: creates every part of the master, runs it, stops it cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from catena import __version__
from catena.core import events
from catena.core.clock import Clock, SystemClock, read_boot_id, read_host_id
from catena.core.config.folders import CONFIG_DIR
from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.files import private_folder
from catena.core.records import encode
from catena.fileserver.index import RootOptions
from catena.fileserver.service import FileService
from catena.master import contributions
from catena.master.engine_parts import EngineParts
from catena.master.engines import ENGINES, EngineClass
from catena.master.events.bus import EventBus
from catena.master.events.failed_reactions import FailedReactionStore
from catena.master.events.feed import JobFeed
from catena.master.events.handlers import EventHandlers
from catena.master.events.reactions import ClientPerformer, WorkerRenderer
from catena.master.executions.approval_deadlines import ApprovalDeadlines
from catena.master.executions.engine import Engines
from catena.master.executions.starts import AgentStarts
from catena.master.gate.handlers import MinionHandlers
from catena.master.gate.minion_gate import GateParts, MinionGate, Outcome
from catena.master.gate.peers import PeerFrontEnd
from catena.master.gate.pillars import PillarService
from catena.master.gate.presence import Presence, PresenceParts
from catena.master.gate.pushed_files import PushedFiles
from catena.master.gate.views import MinionViews
from catena.master.jobs.handlers import JobHandlers
from catena.master.jobs.output import Outputs
from catena.master.jobs.returns import ReturnParts, Returns
from catena.master.jobs.sender import DeliveryLedger, JobSender
from catena.master.jobs.service import JobParts, Jobs
from catena.master.jobs.steady_clock import SteadyClock
from catena.master.jobs.targets import Targets, TargetSources
from catena.master.jobs.views import JobViews
from catena.master.keys.enrol import Enrol, EnrolParts
from catena.master.keys.handlers import KeyHandlers
from catena.master.keys.service import Keys
from catena.master.minions.facts import Facts
from catena.master.minions.sessions import MessageSender, Sessions
from catena.master.process import cli_access, heap, log, retention, supervisor
from catena.master.process.clocks import HostClocks
from catena.master.process.housekeeping import Housekeeping, PeriodicTask
from catena.master.process.server_clocks import LOOK_SECONDS, ServerClocks
from catena.master.push.hosts import RosterHosts
from catena.master.push.looks import Looks
from catena.master.push.reports import HostEvents, NoLink
from catena.master.push.worker import SshWorker, WorkerParts
from catena.master.requests import peer_rights, verb
from catena.master.requests.blobs import Blobs
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.handlers import RequestHandlers
from catena.master.requests.once import RequestLog
from catena.master.requests.reactor_front_end import ReactorFrontEnd
from catena.master.requests.unix_front_end import LocalUsers, UnixFrontEnd
from catena.master.runners.calls import Runners
from catena.master.store import soundness, upkeep
from catena.master.store.database import Store, database_url, is_file
from catena.master.store.fast import log_room
from catena.master.workers.pool import Workers
from catena.reactors import rules
from catena.reactors.engine import Reactor
from catena.transport.gateway import Gateway, GatewaySettings
from catena.transport.keys import KeyPair, check_pair, load_or_create
from catena.transport.local_server import LocalServer
from catena.transport.messages import Envelope, Goodbye
from catena.transport.peers import Endpoints, KeyTable, Peer

LOG = logging.getLogger(__name__)

TICK_SECONDS = 1.0
#: Seconds until a part restarts after an error of the store or of a peer.
RESTART_SECONDS = 5.0
SWEEP_SECONDS = 5.0
PRUNE_SECONDS = 600.0
TRIM_SECONDS = 60.0
#: Interval in seconds at which an idle master checks that it still holds its database's lock.
PROVE_SECONDS = 5.0


class Master:
    """All parts of one master, created in the order of their dependencies.

    Args:
        settings: checked settings; their folders already include `root_dir`.
        clock: source of the time; None: this host, or with PostgreSQL its server.
        config_dir: folder of the configuration, for the commands in messages.
        engines: classes of the engines that this master runs.
    """

    def __init__(
        self,
        settings: MasterSettings,
        clock: Clock | None = None,
        config_dir: str = CONFIG_DIR,
        engines: Sequence[EngineClass] = ENGINES,
    ) -> None:
        self.settings = settings
        self.config_dir = config_dir
        self.clock: Clock = clock or SystemClock()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = asyncio.Event()
        self._failed = False
        self.engines = Engines(engines)
        self._make_ground(shared_time=clock is None)
        self._make_jobs()
        self._make_engines()
        self._make_minion_side()
        self._make_client_side()

    def _make_ground(self, *, shared_time: bool) -> None:
        settings = self.settings
        state = private_folder(settings.state_dir)
        private_folder(settings.cache_dir)
        self.pair: KeyPair = load_or_create(settings.pki_dir)
        check_pair(settings.pki_dir, self.pair)
        self.store = Store(database_url(settings), alone=True)
        self.store.on_lock_lost = self._stop_without_lock
        self.store.on_damage = self._damaged
        host = (self.clock, read_boot_id(), read_host_id())
        shared_time = shared_time and self.store.dialect == "postgresql"
        self.clocks = ServerClocks(self.store, *host) if shared_time else HostClocks(*host)
        self.bus = EventBus(self.store, self.clock)
        self.accepted = KeyTable()
        self.facts = Facts()
        self.keys = Keys(self.store, self.bus, self.accepted, self.clock, self.pair)
        self.requests = RequestLog(self.store, self.clock)
        self.sessions = Sessions()
        self.feed = JobFeed()
        self.blobs = Blobs(state / "blobs")
        self.workers = Workers(
            encode(settings),
            settings.worker_processes,
            settings.pillar_timeout_seconds,
            engine_tasks=self.engines.worker_tasks,
        )
        self.gateway = self.make_gateway()

    def make_gateway(self) -> Gateway:
        """Return the listening sockets for minions (replaced in tests)."""
        settings = self.settings
        return Gateway(
            Endpoints.of(settings.interface, settings.port),
            self.pair,
            self.accepted,
            self._on_message,
            GatewaySettings(settings.peer_budget_kib * 1024),
            self._on_gone,
        )

    def _on_message(self, peer: Peer, envelope: Envelope) -> Outcome:
        return self.gate.on_message(peer, envelope)

    def _on_gone(self, peer: Peer) -> None:
        self.gate.on_gone(peer)

    def _make_jobs(self) -> None:
        self.minions = MinionViews(
            self.store,
            self.keys,
            self.sessions,
            self.clock,
            self.facts,
            self.engines.under_way,
        )
        self.pillars = PillarService(self.workers, self.minions.grains, self.clock, self.facts)
        self.ssh_hosts = RosterHosts(
            Path(self.settings.roster_file), self._roster, self.keys.ids, self.clock.monotonic
        )
        self.sources = TargetSources(
            self.store,
            self.keys.ids,
            self.settings.nodegroups,
            self.pillars.pillars,
            self.facts,
            self.ssh_hosts,
        )
        self.targets = Targets(self.sources)
        self.deliveries = DeliveryLedger(self.bus, self.feed, self.sessions, self.clock)
        self.steady = SteadyClock(self.store, self.clocks.read)
        self.job_sender = JobSender(self.store, self.gateway, self.deliveries, self.steady)
        self.jobs = Jobs(
            JobParts(
                self.store,
                self.bus,
                self.deliveries,
                self.job_sender,
                self.targets,
                self.clock,
                self.steady,
                self.settings.job_expiry_hours * 3600.0,
            )
        )
        self.keys.on_delete.append(self.jobs.cancel_open_in)
        self.views = JobViews(
            self.store, self.feed, self.jobs, self.deliveries, self.steady.by_wall_clock
        )

    async def _roster(self) -> dict[str, dict[str, Any]]:
        return cast(dict[str, dict[str, Any]], await self.workers.call("roster", {}))

    def _make_engines(self) -> None:
        self.ssh = SshWorker(self._ssh_parts())
        self.deliveries.ssh = self.ssh
        parts = EngineParts(
            self.settings,
            self.store,
            self.bus,
            self.jobs,
            Targets(self.sources, with_hosts=True),
            self.blobs,
            self.clocks,
            self.facts,
            self.ssh,
            self.workers,
        )
        self.engines.make(parts)
        for observer in self.engines.observers:
            self.jobs.observe(observer)
        self.deliveries.holds = self.engines
        self.starts = AgentStarts(self.store, self.bus, self.engines)
        self.approvals = ApprovalDeadlines(self.store, self.clocks.read, self.engines, self.bus)

    def _ssh_parts(self) -> WorkerParts:
        settings = self.settings
        returns = ReturnParts(
            self.store,
            self.bus,
            self.feed,
            self.deliveries,
            self.job_sender,
            NoLink(),
            self.clock,
            self.jobs.new_jid,
        )
        again = settings.ssh_reboot_minutes * 60
        return WorkerParts(
            store=self.store,
            jobs=self.jobs,
            hosts=self.ssh_hosts,
            returns=Returns(returns),
            fire=HostEvents(self.store, self.bus),
            outputs=self._outputs(NoLink()),
            looks=Looks(self.bus, self.clocks.read, again, self.engines),
            clocks=self.clocks.read,
            steady=self.steady.now,
            overlay=self.engines.overlay,
            settings=encode(settings),
            config_dir=self.config_dir,
            extra_roots=self.engines.roots,
            width=settings.ssh_visits,
            again=again,
            left=self.engines.wake,
            hand_over=self.job_sender.retry_soon,
        )

    def _make_minion_side(self) -> None:
        settings = self.settings
        self.presence = Presence(
            PresenceParts(
                self.store,
                self.bus,
                self.keys,
                self.facts,
                self.sessions,
                self.job_sender,
                self.gateway,
                self.clock,
                settings.ping_interval_seconds,
                settings.events_per_second,
                settings.job_output_per_second_kib * 1024,
                settings.job_output_kib * 1024,
            )
        )
        self.keys.on_close.append(self.presence.closed)
        options = RootOptions.of(
            settings.fileserver_followsymlinks,
            settings.file_ignore_glob,
            settings.file_ignore_regex,
        )
        self.files = FileService(
            settings.file_roots, self.engines.overlay, self.engines.roots, options
        )
        self.gate = MinionGate(self._gate_parts())

    def _gate_parts(self) -> GateParts:
        settings = self.settings
        enrol = EnrolParts(
            self.store,
            self.bus,
            self.keys,
            self.gateway,
            self.clock,
            self.pair.public,
            settings.auto_accept,
        )
        returns = ReturnParts(
            self.store,
            self.bus,
            self.feed,
            self.deliveries,
            self.job_sender,
            self.gateway,
            self.clock,
            self.jobs.new_jid,
        )
        return GateParts(
            self.store,
            self.bus,
            self.keys,
            self.gateway,
            self.clock,
            Enrol(enrol),
            self.presence,
            Returns(returns),
            self.pillars,
            self.files,
            settings.return_limit_mib * 1024 * 1024,
            settings.events_per_second,
            settings.job_output_per_second_kib * 1024,
            self._outputs(self.gateway),
            PushedFiles(
                Path(settings.cache_dir) / "minions",
                settings.file_recv,
                settings.file_recv_max_size * 1024 * 1024,
                settings.file_recv_minion_mib * 1024 * 1024,
            ),
            PeerFrontEnd(peer_rights.parse(settings), lambda: self.dispatcher),
        )

    def _outputs(self, link: MessageSender) -> Outputs:
        limit = self.settings.job_output_kib * 1024
        return Outputs(self.store, self.feed, link, limit, self.deliveries.observers)

    def _make_client_side(self) -> None:
        handlers = (
            JobHandlers(self.jobs, self.views),
            EventHandlers(self.bus),
            KeyHandlers(self.keys, self.sessions, self.gateway, self.pair.fingerprint),
            MinionHandlers(self.minions, self.targets),
            Runners(self.jobs, self.bus, self.views, self.minions, lambda: self.reactor),
            RequestHandlers(self.requests, self.blobs),
            *self.engines.handlers,
        )
        self.dispatcher = Dispatcher(verb.table(handlers), self.requests)
        self.reactor_front_end = ReactorFrontEnd(self.dispatcher)
        front_end = UnixFrontEnd(self.dispatcher, LocalUsers(self.settings.cli_users))
        self.local = LocalServer(
            Path(self.settings.run_dir) / "master.sock",
            front_end.serve,
            front_end.allows,
            cli_access.socket_group(self.settings),
        )
        self.reactor = Reactor(
            rules.parse(self.settings.reactor, self.settings.reactor_defaults),
            self.bus,
            WorkerRenderer(self.workers),
            ClientPerformer(self.reactor_front_end, self.workers, self.bus, self.jobs.new_jid),
            FailedReactionStore(self.store),
            lambda: self.clock.now().timestamp(),
        )
        self.bus.on_expected(self.reactor.expect)

    async def start(self) -> None:
        """Open the store, listen, and start all background tasks.

        Raises:
            CatenaError: the master can't start; everything that was opened is closed again.
        """
        self._loop = asyncio.get_running_loop()
        await self.store.open()
        try:
            await self.clocks.look()
            await self.bus.open()
            await self.keys.open()
            await self.jobs.open()
            await self.presence.open()
            await self.engines.open()
            await self.ssh.open()
            await self.job_sender.open()
            await self.gateway.start()
            await self.local.start()
        except CatenaError:
            await self.stop()
            raise
        for name, work in (
            *((engine.name, engine.run) for engine in self.engines),
            ("starts", self.starts.run),
            ("approvals", self.approvals.run),
            ("ssh", self.ssh.run),
            ("reactor", self.reactor.run),
            ("housekeeping", self._run_periodic_tasks),
        ):
            self._begin(name, work)
        facts = (__version__, len(self.keys.ids()), self.settings.port, self.pair.fingerprint)
        LOG.info("catena master %s serves %d minions on port %d; key %s", *facts)
        if self.settings.auto_accept:
            LOG.warning("auto_accept is set: every host that reaches this master becomes a minion")

    def _begin(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_persist(name, work), name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        # No background task ends by itself. A master that lost one must not look healthy.
        name = task.get_name()
        LOG.critical("%s ended, so the master stops", name, exc_info=task.exception())
        self._failed = True
        self._stopped.set()

    def _stop_without_lock(self, why: str) -> None:
        """Stop the master because it lost the store's lock; another master may use the store."""
        LOG.critical("the master stops: %s", why)
        self._failed = True
        self._stopped.set()

    def _damaged(self, what: str) -> None:
        """Report that the store is damaged; `Jobs.submit` refuses new jobs from now on."""
        LOG.critical("the store is damaged, new jobs are refused: %s", what)
        tag = events.STORE_DAMAGED
        self.store.later(lambda conn: self.bus.record(conn, tag, {"what": what}))

    async def _check_database(self) -> None:
        """Check in the background a database file that is too large to be checked at the start."""
        url = database_url(self.settings)
        if not is_file(url) or upkeep.sqlite_file(url).stat().st_size <= soundness.QUICK_BYTES:
            return
        try:
            found = await soundness.check_in_background(upkeep.sqlite_file(url))
        except (CatenaError, OSError) as error:
            LOG.warning("the check of the database failed: %s", error)
            return
        if found:
            self.store.report_damage(found[0])
        LOG.info("the database was checked: %d errors found", len(found))

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until a part fails; return the exit code."""
        self._tasks.append(asyncio.create_task(log_room.preallocate(self.store.write)))
        self._tasks.append(asyncio.create_task(self._check_database()))
        supervisor.notify("READY=1")
        await self._stopped.wait()
        supervisor.notify("STOPPING=1")
        await self.stop()
        return 1 if self._failed else 0

    def take_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, reopen the log file on SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)

    def _hung_up(self) -> None:
        """Reopen the log file. If the log is on stderr, stop: SIGHUP means a closed terminal."""
        if log.reopen():
            LOG.info("log file reopened")
        else:
            self._stopped.set()

    async def stop(self) -> None:
        """Refuse new requests, say goodbye to minions, close everything; may be called twice."""
        await self.local.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.gate.close()
        for session in self.sessions:
            self.gateway.send(session.peer, Goodbye("the master stops"))
        await self.gateway.stop()
        await self.workers.stop()
        await self.store.close()
        LOG.info("catena master stopped")

    async def _run_periodic_tasks(self) -> None:
        """Run the periodic work: presence, expiry and resending of jobs, pruning of old rows."""
        watchdog = supervisor.watchdog_seconds()
        notified = 0.0
        tasks = (
            PeriodicTask(SWEEP_SECONDS, self._sweep),
            PeriodicTask(PRUNE_SECONDS, self._prune),
            PeriodicTask(TRIM_SECONDS, lambda: asyncio.to_thread(heap.trim)),
            PeriodicTask(PROVE_SECONDS, self.store.prove_alone),
            PeriodicTask(LOOK_SECONDS, self.clocks.look),
        )
        housekeeping = Housekeeping(tasks, self.clock.monotonic())
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self.clock.monotonic()
            if watchdog and now - notified >= watchdog:
                notified = now
                supervisor.notify("WATCHDOG=1")
            self.presence.tick()
            await housekeeping.run_due(now)

    async def _sweep(self) -> None:
        self.gate.sweep()
        await self.jobs.expire()
        await self.jobs.resend()

    async def _prune(self) -> None:
        rules = contributions.retention(self.engines.kinds)
        kept = retention.limits(rules, self.settings, self.clock.now().timestamp())
        await retention.prune(self.store, rules, kept)
        await asyncio.to_thread(self.blobs.sweep)


async def _persist(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the master for ever; restart it after a CatenaError."""
    while True:
        try:
            await work()
        except* CatenaError as group:
            LOG.error("%s failed and will be restarted: %s", name, group.exceptions[0])
        await asyncio.sleep(RESTART_SECONDS)
