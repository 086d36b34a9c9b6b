"""A minion's host: its disk, boots, agent processes, jobs, and the faults that can hit them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from catena.core.clock import Clock
from catena.core.config.minion import MinionSettings
from catena.core.errors import UnreachableError
from catena.core.marks import is_resumable
from catena.minion.agent import Agent, Ports
from catena.minion.jobs.folder import Claim, ReturnExtras, job_folder, unpacked_order
from catena.minion.jobs.follow_up import Commands
from catena.minion.jobs.ports import ForkListener
from catena.minion.jobs.processes import ProcessRef
from catena.minion.launch import with_chains
from catena.minion.log import Log
from catena.minion.start.blob import StartData
from catena.minion.start.place import place_of
from catena.minion.worker.process import Worker
from catena.runtime import agent_versions
from catena.transport.failures import failure_of
from tests.sim.disk import Disk
from tests.sim.network import SimLink
from tests.sim.service import Asker, Service
from tests.sim.stage import Stage
from tests.sim.tasks import Job, Killed, Program

#: How soon the service manager starts an agent that has ended.
RESTART_SECONDS = 2.0


class Fate(NamedTuple):
    """How a program will end: at which of its steps, and what ends it."""

    steps: int
    strike: Callable[[], None]


class Host:
    """One minion's host.

    Args:
        stage: what everything stands on.
        name: its minion's id.
        folder: where its disk and the file of its boot id lie.
        key: the minion's public key.
        options: settings of its agent beside the folders.
    """

    def __init__(
        self, stage: Stage, name: str, folder: Path, key: str, options: Mapping[str, Any]
    ) -> None:
        self.stage, self.name, self.key = stage, name, key
        self.clock = stage.clock()
        root = folder / name
        root.mkdir(parents=True)
        for part in ("cache", "conf", "pki", "agent"):
            (root / part).mkdir(mode=0o700)
        self.disk = Disk(root)
        self.disk.sync_all()
        stage.tap.watch(self.disk)
        self._boot_file = folder / f"{name}.boot"
        self.boots = 0
        #: Reboots that an agent ordered and that happened.
        self.halts = 0
        #: Says under which epoch an action runs here: its name.
        self.epoch_of: Callable[[str], int] = lambda key: 0
        self.settings = self._settings(root, options)
        self.conf = root / "conf"
        self.up = False
        self.agent: Agent | None = None
        self.program: Program | None = None
        self.jobs: dict[ProcessRef, Job] = {}
        self.watched: dict[ProcessRef, Callable[[], None]] = {}
        self.askers: set[Asker] = set()
        self._timer: Any = None
        self._woken = False
        self._pids = 100
        #: Share of what is not synced that a cut keeps; None: as luck has it.
        self.share_kept: float | None = None
        #: Jobs so far, and who is asked before each.
        self.spawned = 0
        self.before_job: Callable[[], None] = lambda: None
        #: What becomes of the next agent and of the next job; taken when it starts.
        self.next_agent: Fate | None = None
        self.next_job: Fate | None = None

    def _settings(self, root: Path, options: Mapping[str, Any]) -> MinionSettings:
        return MinionSettings(
            id=self.name,
            master="sim",
            machine_id=f"mach-{self.name}",
            cache_dir=str(root / "cache"),
            pki_dir=str(root / "pki"),
            run_dir=str(root / "run"),
            agent_dir=str(root / "agent"),
            boot_id_file=str(self._boot_file),
            reboot_command=["reboot"],
            **options,
        )

    # -- power ---------------------------------------------------------------------------------

    def power_on(self) -> None:
        """Boot."""
        if self.up:
            return
        self.boots += 1
        self._boot_file.write_text(f"boot-{self.name}-{self.boots}\n")
        self.clock.boot()
        self.up = True
        self.stage.tell(self.name, f"boots ({self.boots})")
        self.start_agent()

    def power_cut(self) -> None:
        """Lose the power, now."""
        if not self.up:
            return
        self.condemn()
        self.stage.soon(self._cut)

    def condemn(self) -> None:
        """Let nothing of this host take one more step."""
        self.up = False
        for program in (self.program, *self.jobs.values()):
            if program is not None:
                program.dead = True

    def _cut(self) -> None:
        self._end_all()
        with self.stage.tap.aside():
            kept = self.disk.cut(self.stage.rng, self.share_kept)
        self.stage.tell(self.name, f"power cut; {kept}")
        self.stage.later(self.stage.rng.uniform(5, 40), self.power_on)

    def halt_in(self, boot: int) -> None:
        """Halt, unless the boot that it was asked for in is over."""
        if self.boots == boot:
            self.halt()

    def halt(self) -> None:
        """Shut down in good order, and boot."""
        if not self.up:
            return
        self.halts += 1
        self.stage.tell(self.name, "shuts down")
        self.stop_agent()
        self.condemn()
        self._end_all()
        with self.stage.tap.aside():
            self.disk.sync_all()
        self.stage.later(self.stage.rng.uniform(5, 40), self.power_on)

    def _end_all(self) -> None:
        self._forget_agent()
        for job in list(self.jobs.values()):
            job.kill()
        self.jobs.clear()
        self.watched.clear()

    def obstruct(self, place: str, *, with_content: bool) -> bool:
        """Put a folder in the place of a file; return whether there is one now.

        A full disk takes no folder.
        """
        path = self.disk.root / place
        if path.is_dir() or not path.parent.is_dir() or self.disk.free is not None:
            return False
        # As somebody else does it, outside of the simulated programs, and durably.
        with self.stage.turn.of(None):
            if path.exists():
                os.unlink(path)  # noqa: PTH108  # by the calls that the tap sees
            os.mkdir(path)  # noqa: PTH102
            if with_content:
                handle = os.open(path / "notes", os.O_WRONLY | os.O_CREAT, 0o600)
                os.close(handle)
        for folder in (path, path.parent):
            self.disk.sync(str(folder))
        return True

    # -- the agent -----------------------------------------------------------------------------

    def start_agent(self) -> None:
        """Start an agent process."""
        if not self.up or self.agent is not None:
            return
        program = self.program = Program(f"{self.name}.agent", self)
        fate, self.next_agent = self.next_agent, None
        if fate is not None:
            program.steps_left, program.fate = fate
        with self.stage.turn.of(program):
            try:
                start = with_chains(self._start_record())
                self.stage.tell(self.name, f"agent starts{_state_of(start)}")
                self.agent = Agent(start, self.clock, self._log(), self._ports(program))
                self.agent.recover()
            except Killed:
                self._forget_agent()
                return
            except Exception as error:  # noqa: BLE001  # what would end the process
                self._broke(error)
                return
        self.wake()

    def _start_record(self) -> StartData:
        session = f"{self.name}-{self.boots}-{self.stage.count('session')}"
        grains = {"id": self.name, "os": "sim"}
        machine = self.settings.machine_id
        return StartData(
            self.settings, self.name, machine, str(self.conf), grains, session=session
        )

    def _log(self) -> Log:
        return _TraceLog(self.stage, self.name, self.clock)

    def _ports(self, program: Program) -> Ports:
        network = self.stage.network
        return Ports(
            lambda now: SimLink(network, self.name, self.key, self.wake),
            lambda boot_id, listener: SimProcesses(self, program, boot_id, listener),
            _Power(self),
            self._restart,
        )

    def _broke(self, error: BaseException) -> None:
        """An error that no agent should die of."""
        text = "".join(traceback.format_exception(error))
        self.stage.fault(f"{self.name}: the agent died of {error!r}\n{text}")
        self._forget_agent()
        self.stage.later(RESTART_SECONDS, self.start_agent)

    def _restart(self) -> None:
        assert self.agent is not None
        self.agent.close("restart of the agent")
        agent_versions.begin_switch(Path(self.settings.agent_dir), self.agent.start.cache_dir)
        self.stage.tell(self.name, "agent restarts itself")
        self._forget_agent()
        self.stage.later(0.3, self.start_agent)
        raise Killed

    def stop_agent(self) -> None:
        """SIGTERM: the agent says goodbye."""
        if self.agent is None or self.program is None or self.program.dead:
            return
        with self.stage.turn.of(self.program):
            try:
                self.agent.close("SIGTERM")
            except Killed:
                pass
        self._forget_agent()

    def kill_agent(self) -> None:
        """SIGKILL for the agent alone; the service manager starts another one."""
        if self.program is None:
            return
        self.program.dead = True
        self.stage.soon(self._buried)

    def _buried(self) -> None:
        self.stage.tell(self.name, "agent is killed")
        self._forget_agent()
        self.stage.later(RESTART_SECONDS * self.stage.rng.uniform(0.1, 3), self.start_agent)

    def _forget_agent(self) -> None:
        agent, self.agent = self.agent, None
        if self.program is not None:
            self.program.dead = True
        self.program = None
        self.watched.clear()
        if agent is not None:
            # The kernel hangs up for it.
            with self.stage.turn.of(None):
                link = agent.link._link
                if link is not None:
                    link.close()
        for asker in list(self.askers):
            asker.send(failure_of(UnreachableError("the agent is gone")), b"")

    def wake(self) -> None:
        """Have the agent look soon."""
        if not self._woken:
            self._woken = True
            self.stage.soon(self.poll)

    def poll(self) -> None:
        """One round of the agent's loop."""
        self._woken = False
        if self._timer is not None:
            self._timer.cancel()
        agent, program = self.agent, self.program
        if agent is None or program is None or program.dead:
            return
        delay = 30.0
        with self.stage.turn.of(program):
            try:
                now = self.clock.monotonic()
                agent.service(now)
                delay = max(0.001, min(30.0, agent.next_due(now) - now))
            except Killed:
                return
            except Exception as error:  # noqa: BLE001  # what would end the process
                self._broke(error)
                return
        self._timer = self.stage.later(delay, self.poll)

    def with_agent(self, act: Callable[[Agent], object]) -> None:
        """Let something reach the agent, if there is one."""
        agent, program = self.agent, self.program
        if agent is None or program is None or program.dead:
            return
        with self.stage.turn.of(program):
            try:
                act(agent)
            except Killed:
                return
            except Exception as error:  # noqa: BLE001  # what would end the process
                self._broke(error)
                return
        self.wake()

    # -- jobs ----------------------------------------------------------------------------------

    def next_ref(self) -> ProcessRef:
        """Return the name of a process that is to begin."""
        self._pids += 1
        ticks = int(self.clock.monotonic() * 100)
        return ProcessRef(self._pids, ticks, f"boot-{self.name}-{self.boots}")

    def spawn(self, jid: str, start: StartData) -> ProcessRef:
        """Begin a job's process."""

        def run(worker: Worker) -> None:
            worker.run(job_folder(start.cache_dir, jid))

        return self.begin_process(self.next_ref(), start, run)

    def begin_process(
        self, ref: ProcessRef, start: StartData, run: Callable[[Worker], None]
    ) -> ProcessRef:
        """Let a job's process *run*."""
        self.before_job()
        self.spawned += 1

        def work(job: Job) -> None:
            job.sleep(self.stage.rng.uniform(0.001, 0.05))
            service = Service(self, job)
            run(Worker(start, place_of(start), service, lambda _: Claim(ref), self.clock))

        def ended() -> None:
            self.jobs.pop(ref, None)
            if job.error is not None and not isinstance(job.error, OSError):
                text = "".join(traceback.format_exception(job.error))
                self.stage.fault(f"{job.name} broke: {text}")
            told = self.watched.pop(ref, None)
            if told is not None:
                self.with_agent(lambda _: told())

        job = Job(f"{self.name}.job", self, self.stage.loop, self.stage.turn, work, ended)
        fate, self.next_job = self.next_job, None
        if fate is not None:
            job.steps_left, job.fate = fate
        self.jobs[ref] = job
        job.start()
        return ref

    def kill_running_job(self) -> None:
        """The job that runs at this moment is killed in its midst."""
        job = self.stage.turn.running
        if isinstance(job, Job):
            self.stage.tell(job.name, "is killed in its midst")
            job.dead = True

    def kill_job(self) -> None:
        """The kernel's memory killer takes a job."""
        for job in list(self.jobs.values()):
            self.stage.tell(job.name, "is killed")
            job.dead = True
            self.stage.soon(job.kill)


class SimProcesses:
    """The job processes of a host, for one agent (`runner.Processes`)."""

    def __init__(self, host: Host, program: Program, boot_id: str, listener: ForkListener) -> None:
        self._host, self._program, self._listener = host, program, listener
        self._boot_id = boot_id
        self._start: StartData | None = None
        self._asked = 0

    def fork(self, jid: str, fun: str, start: StartData, now: float) -> None:
        """As Processes."""
        self._start = start
        delay = self._host.stage.rng.choice((0.001, 0.05, 0.3))
        self._host.stage.later(delay, lambda: self._fork(jid, start))

    def _fork(self, jid: str, start: StartData) -> None:
        host = self._host
        if not host.up or f"boot-{host.name}-{host.boots}" != self._boot_id:
            return
        if self._program.dead and host.stage.rng.random() < 0.5:
            return  # the template saw its end first
        ref = host.spawn(jid, start)
        told = ref.start if ref in host.jobs and not host.jobs[ref].over else None
        if not self._program.dead:
            host.with_agent(lambda _: self._listener.forked(jid, ref.pid, told))

    def free(self, fun: str) -> ProcessRef | None:
        """As Processes: each second job finds a process, which has done nothing before."""
        self._asked += 1
        if is_resumable(fun) or self._start is None or self._asked % 2:
            return None
        return self._host.next_ref()

    def give(self, process: ProcessRef, jid: str, order: bytes, ended: Callable[[], None]) -> bool:
        """As Processes."""
        host, program, start = self._host, self._program, self._start
        if start is None or self._asked % 10 == 0:
            return False

        def run(worker: Worker) -> None:
            folder = job_folder(start.cache_dir, jid)
            answer = worker.answer(folder, unpacked_order(order).spec)
            if not program.dead and answer.aside == ReturnExtras():
                host.with_agent(lambda _: self._listener.handed(jid, answer.body))
                if not program.dead:
                    return
            # The agent died before it was told, or with what it was told.
            folder.make()
            folder.finish(answer.body, answer.aside)

        host.watched[process] = ended
        host.begin_process(process, start, run)
        return True

    def printed(self, process: ProcessRef) -> int:
        """As Processes."""
        return 0

    def alive(self, process: ProcessRef) -> bool:
        """As Processes."""
        job = self._host.jobs.get(process)
        return job is not None and not job.over and not job.dead

    def watch(self, process: ProcessRef, ended: Callable[[], None]) -> bool:
        """As Processes."""
        if not self.alive(process) or self._host.stage.rng.random() < 0.1:
            return False
        self._host.watched[process] = ended
        return True

    def forget(self, process: ProcessRef) -> None:
        """As Processes."""
        self._host.watched.pop(process, None)

    def signal(self, process: ProcessRef, number: int) -> None:
        """As Processes."""

    def kill(self, process: ProcessRef, scope: str) -> None:
        """As Processes."""
        job = self._host.jobs.get(process)
        if job is not None:
            job.dead = True
            self._host.stage.soon(job.kill)

    def tick(self, now: float) -> None:
        """As Processes."""

    def next_due(self) -> float | None:
        """As Processes."""
        return None

    def rest(self, now: float, idle_seconds: float) -> None:
        """As Processes."""

    def renew(self) -> None:
        """As Processes."""

    def close(self) -> None:
        """As Processes."""
        self._host.watched.clear()


class _Power(Commands):
    """The command that reboots."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def start(self, command: Sequence[str]) -> None:
        """Reboot soon; now and then nothing comes of it."""
        host = self._host
        works = host.stage.rng.random() < host.stage.reboots_work
        host.stage.tell(host.name, "reboot is ordered" + ("" if works else ", in vain"))
        boots = host.boots
        if works:
            host.stage.later(host.stage.rng.uniform(0.1, 5), lambda: host.halt_in(boots))


class _TraceLog(Log):
    """An agent's log that goes into the trace."""

    def __init__(self, stage: Stage, name: str, clock: Clock) -> None:
        super().__init__(2, "info", clock)
        self._stage, self._name = stage, name

    def _write(self, level: int, text: str) -> None:
        self._stage.tell(f"{self._name}.log", text)


def _state_of(start: StartData) -> str:
    facts = []
    if start.open_chain:
        facts.append(f"chain {start.open_chain} waits")
    if start.pending_after:
        facts.append(f"owes a {start.pending_after.get('kind')}")
    return f" ({', '.join(facts)})" if facts else ""
