"""The minion's agent: handles the master's messages, sends what is owed, does what is due.

It uses sockets, processes and signals only through `Ports`, so that the same agent runs in the
daemon and in simulations.
"""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Set, Tuple

import catena
from catena.core import failpoints, frozen
from catena.core.chain_calls import RESUME
from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.core.ids import JidFactory
from catena.core.job import CHAIN, JobProgress, JobReturn, JobSpec
from catena.minion import upgrade
from catena.minion.jobs import inline
from catena.minion.jobs.folder import ReturnExtras
from catena.minion.jobs.follow_up import AWAIT_STORED_SECONDS, Afterwards, Commands
from catena.minion.jobs.own_jobs import OwnJobs
from catena.minion.jobs.ports import MakeProcesses
from catena.minion.jobs.queue import Work
from catena.minion.jobs.receipts import Receipts
from catena.minion.jobs.returns import ReturnSender
from catena.minion.jobs.runner import JobRunner
from catena.minion.link.damages import Damages
from catena.minion.link.event_log import EventLog
from catena.minion.link.events import Events, Told
from catena.minion.link.master import MasterLink, OpenLink
from catena.minion.link.outbox import Outbox
from catena.minion.link.relay import Relay
from catena.minion.log import Log
from catena.minion.start.blob import StartData
from catena.transport import wire
from catena.transport.messages import (
    Envelope,
    EventFired,
    EventStored,
    Failure,
    GrainsUpdate,
    Hello,
    JobCancel,
    JobOrder,
    JobOutput,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    OutputStored,
    ReturnStored,
    Welcome,
)
from catena.transport.messages.session import AGENT_WIRE, NAMED_QUEUE

if TYPE_CHECKING:
    from catena.minion.link.output import OutputSender

#: Seconds until the confirmation of a version is retried.
CONFIRM_AGAIN_SECONDS = 5.0
#: Number of reboot deadlines that a held chain blocks other chains, in addition to the time that
#: its master may wait for the boot, counted from the last attempt to reboot. By then the master
#: has failed the chain. A chain that starts earlier would fail because of the resume file.
HOLD_DEADLINES = 2


@dataclass(frozen=True)
class Ports:
    """The interfaces to everything outside the agent."""

    #: Makes a connection to the master.
    open_link: OpenLink
    #: Makes what forks, watches and kills job processes.
    processes: MakeProcesses
    #: Runs the command that reboots this host.
    commands: Commands
    #: Replaces this process by the agent version that `current` names.
    restart: Callable[[], None]


class Agent:
    """One minion.

    Args:
        start: the launcher's start record, with the id of this agent process.
        clock: the time.
        log: the agent's log.
        ports: see Ports.
    """

    def __init__(self, start: StartData, clock: Clock, log: Log, ports: Ports) -> None:
        self.start = start
        self._clock, self._log = clock, log
        self._open_jobs: Set[str] = set()
        #: Jobs that were reported to the master as postponed.
        self._put_off: Set[str] = set()
        #: The master's last Welcome; None: it was never connected.
        self._welcome: Optional[Welcome] = None
        self._held_since: Optional[float] = None
        #: A job may have ended the chain that holds back others, and left its resume file.
        self._hold_in_doubt = False
        #: A held chain, and the wait for its boundaries according to its manifest, once read.
        self._boundary: Optional[Tuple[int, int]] = None
        #: The grains that were last sent to the master, in a Hello or an update.
        self._told_grains: Optional[Dict[str, Any]] = None
        #: Time to retry the confirmation of the running version, after a full disk.
        self._confirm_due = math.inf
        self._outbox = Outbox()
        self._receipts = Receipts()
        self._returns = ReturnSender(log, lambda: clock.now().timestamp())
        self.runner = JobRunner(ports.processes, lambda: self.start, clock, log, self)
        deadline = start.settings.reboot_deadline_minutes * 60.0
        self._after = Afterwards(
            self.runner.boot_id, start.session, deadline, ports.restart, log, ports.commands
        )
        self.link = MasterLink(ports.open_link, self._hello, self, clock, log, start)
        kept = EventLog(start.cache_dir, lambda: clock.now().timestamp())
        tell = partial(self.link.send, "control")
        self._events = Events(kept, self._outbox, tell, log)
        #: None until a job of this agent process has printed something.
        self._output: Optional[OutputSender] = None
        self._damages = Damages(start.cache_dir, start.id, self.fired, log)
        self.relay = Relay(self.link)
        self._jids = JidFactory(clock.now)
        self._own = OwnJobs(start.settings, bool(start.open_chain), clock.monotonic())

    def recover(self) -> None:
        """Load what an earlier agent process left."""
        now = self._clock.monotonic()
        if self.start.pending_after:
            self._after.promise("earlier", self.start.pending_after, now, AWAIT_STORED_SECONDS)
        self._set_chain(self.start.open_chain)
        self.runner.recover()
        self._open_jobs |= set(self.runner.open_jobs())
        self._events.recover()
        self._damages.look()

    def service(self, now: float) -> None:
        """Read what arrived and do what is due; *now* is monotonic."""
        # First, because the senders of events wait for this.
        self._events.keep(now)
        self.link.service(now)
        self._events.service(now)
        self._tell_grains()
        for jid in self._receipts.take(now):
            self.link.send("control", self._receipt(jid))
        self._outbox.service(now)
        if self._output is not None:
            self._output.service(now)
        self.relay.service(now)
        self.runner.tick(now)
        self._after.service(now)
        if now >= self._confirm_due:
            self._confirm(now)
        self._release_hold(now)
        self._begin_own(now)

    def next_due(self, now: float) -> float:
        """Return the latest time at which `service` has something to do if nothing arrives."""
        link = now + self.link.timeout(now) / 1000.0
        due = [link, self._confirm_due, self._receipts.next_due()]
        parts = (self._outbox, self._events, self._output, self.runner, self._after, self._own)
        more = [part.next_due() for part in parts if part is not None]
        due += [moment for moment in more if moment is not None]
        if self.relay.waiting or self._owes_grains:
            due.append(now + 0.02)
        return min(due)

    # -- the master -----------------------------------------------------------------------------

    def _hello(self, first: bool) -> Hello:
        start = self.start
        self._told_grains = start.grains
        return Hello(
            id=start.id,
            machine_id=start.machine_id,
            boot_id=self.runner.boot_id,
            session=start.session,
            version=catena.__version__,
            role="minion",
            first=first,
            grains=start.grains,
            open_jobs=tuple(sorted(self._open_jobs)),
            pending_resume=start.pending_resume,
            wire=AGENT_WIRE,
        )

    def on_welcome(self, welcome: Welcome, now: float) -> None:
        """Process a Welcome: send everything that is open."""
        failpoints.hit("agent.welcome")
        self._welcome = welcome
        self._damages.look()
        self._events.connected(welcome.events_per_second, now)
        self._confirm(now)
        self._outbox.connected(now)
        if self._output is not None:
            self._output.connected(welcome, now)
        self.runner.seen.expire(self._clock.now().timestamp())
        for jid in self._open_jobs:
            if f"ret-{jid}" not in self._outbox:
                self.link.send("control", self._receipt(jid))

    def _confirm(self, now: float) -> None:
        """Confirm the running version, now that the master has accepted it."""
        self._confirm_due = math.inf
        try:
            if upgrade.confirm(self.start.cache_dir, self.start.session):
                self._log.info(f"agent {catena.__version__} is confirmed")
        except OSError as error:
            # Until the guard undoes the upgrade at its deadline, try again.
            self._confirm_due = now + CONFIRM_AGAIN_SECONDS
            self._log.error(f"agent {catena.__version__} cannot be confirmed yet: {error}")

    def on_lost(self, socket: str) -> None:
        """Process the end of a connection to the master."""
        self.relay.lost(socket)
        self._returns.restart()
        if socket == "control":
            self._outbox.lost()
            self._events.lost()
            if self._output is not None:
                self._output.lost()
            self._receipts.clear()

    def on_message(self, envelope: Envelope, now: float) -> None:
        """Handle one message of the master."""
        if self.relay.answer(envelope):
            return
        message = envelope.message
        try:
            self._told(message, now)
        except (OSError, CatenaError) as error:
            # A full disk or a damaged folder. Nothing was confirmed, so the master will resend it.
            self._log.error(f"cannot process {type(message).__name__} of the master: {error}")

    def _told(self, message: Any, now: float) -> None:
        if isinstance(message, JobOrder):
            failpoints.hit("agent.order.before")
            self._ordered(self._in_our_time(message), now)
        elif isinstance(message, JobCancel):
            self._log.info(f"job {message.jid}: cancelled by the master: {message.reason}")
            self.runner.cancel(message.jid, message.reason)
        elif isinstance(message, ReturnStored):
            self._stored(message.jid, now)
        elif isinstance(message, OutputStored):
            if self._output is not None:
                self._output.stored(message)
        elif isinstance(message, EventStored):
            self._events.stored(message.event_id, now)
        elif isinstance(message, Failure):
            self._log.warning(f"the master reports {message.code}: {message.message}")

    def _in_our_time(self, order: JobOrder) -> JobSpec:
        """Return an order with its latest start on this host's clock, which may differ by days."""
        spec = order.spec
        if not (order.now and spec.not_after):
            return spec
        left = spec.not_after - order.now
        return frozen.replace(spec, not_after=self._clock.now().timestamp() + left)

    def _ordered(self, spec: JobSpec, now: float) -> None:
        is_answered = f"ret-{spec.jid}" in self._outbox
        if is_answered and not self.runner.store.knows(spec.jid):
            # An inline function has already answered, and its return is being sent. A job would be
            # removed by the acknowledgement of that return while it runs.
            return
        if self._is_inline(spec):
            if not is_answered:
                moment = self._clock.now().timestamp()
                ret = inline.answer(spec, self.runner, moment, self.runner.boot_id)
                self._tell_inline(ret, now)
            return
        try:
            refusal = self.runner.order(spec)
        except (OSError, CatenaError) as error:
            # Not confirmed, so that the master resends it; the disk may have space then.
            self._log.error(f"job {spec.jid} cannot be stored: {error}")
            return
        if refusal:
            self.link.send("control", JobRejected(spec.jid, refusal))
            return
        failpoints.hit("agent.order.kept")
        self._open_jobs.add(spec.jid)
        if spec.fun == RESUME:
            self._own.resumed()
        if self.runner.is_given(spec.jid):
            self._receipts.add(spec.jid, now)
        else:
            self.link.send("control", self._receipt(spec.jid))
        self.runner.start_next()

    def _is_inline(self, spec: JobSpec) -> bool:
        """Return whether the daemon can run this order without a process."""
        start, runner = self.start, self.runner
        if not inline.is_inline(spec.fun, start.cache_dir):
            return False
        if spec.fun != RESUME:
            return True
        # A known order, or one that must be queued, is handled as a normal job.
        new = spec.jid not in runner.seen and not runner.store.knows(spec.jid)
        idle = not runner.queue.has_serial
        return new and idle and inline.chainless(Path(start.conf_dir), start.cache_dir)

    def _tell_inline(self, ret: JobReturn, now: float) -> None:
        def say() -> bool:
            try:
                return self.link.send("control", JobReturned(ret))
            except CatenaError as error:
                # An order may be larger than a return, and the return repeats its arguments.
                text = f"The value of {ret.fun} cannot be sent: {error}"
                poor = frozen.replace(ret, success=False, retcode=1, value=text, fun_args=())
                return self.link.send("control", JobReturned(poor))

        self._outbox.add(f"ret-{ret.jid}", say)
        self._outbox.service(now)

    def _begin_own(self, now: float) -> None:
        for fun, args in self._own.due(now, self.link.connected):
            if fun == RESUME and not self._resume_file():
                continue
            issued = self._clock.now().timestamp()
            spec = JobSpec(self._jids(), fun, args, user="minion", issued=issued)
            try:
                self.runner.order(spec)
            except (OSError, CatenaError) as error:
                self._log.error(f"{fun} cannot be started: {error}")
                continue
            self._open_jobs.add(spec.jid)
            self.runner.start_next()

    def _stored(self, jid: str, now: float) -> None:
        failpoints.hit("agent.return.stored")
        self._after.stored(jid, now)
        if jid in self._open_jobs:
            # First, because a job whose end cannot be recorded must be sent and stored again.
            self.runner.stored(jid)
            self._open_jobs.discard(jid)
        self._outbox.acked(f"ret-{jid}")
        if self._output is not None:
            self._output.ended(jid)
        self._returns.forget(jid)

    # -- jobs -----------------------------------------------------------------------------------

    def on_done(self, jid: str, aside: ReturnExtras) -> None:
        """Send a durable return until it is stored, then do what the job requested."""
        failpoints.hit("agent.return.found")
        now = self._clock.monotonic()
        self._damages.look()
        self._receipts.drop(jid)
        self._open_jobs.add(jid)
        self._put_off.discard(jid)
        store = self.runner.store
        self._outbox.add(f"ret-{jid}", lambda: self._returns.say(store, jid, self.link))
        if aside.after:
            self._after.promise(jid, aside.after, now, AWAIT_STORED_SECONDS)
        self._learn(aside)
        if upgrade.wants_restart(self.start.cache_dir) and not self.runner.queue.serial_running:
            self._after.promise(jid, {"kind": "restart_agent"}, now, AWAIT_STORED_SECONDS)

    def _learn(self, aside: ReturnExtras) -> None:
        """Record what an ended job reported about chains.

        A job ended by the agent reported nothing, and one of an earlier boot may be outdated: a
        chain waits as long as its resume file exists or its reboot is due.
        """
        waits = self._waits(self._held_chain)
        pending = aside.pending_resume if waits else {}
        if (aside != ReturnExtras() or not waits) and pending != self.start.pending_resume:
            self.start = frozen.replace(self.start, pending_resume=pending)
        if aside.open_chain or not waits:
            self._set_chain(aside.open_chain)
        elif aside != ReturnExtras():
            self._hold_in_doubt = True

    def on_position(self, jid: str, position: int) -> None:
        """Process a job's new position in the queue."""
        self._open_jobs.add(jid)
        self.link.send("control", self._receipt(jid))

    def _receipt(self, jid: str) -> JobReceived:
        """Return the receipt of a job: its position, and what it waits for."""
        named = self._welcome is not None and self._welcome.wire >= NAMED_QUEUE
        behind = self.runner.behind(jid) if named else ""
        return JobReceived(jid, self.runner.position(jid), behind=behind)

    def on_runs(self, jid: str) -> bool:
        """Report that a job runs; return False if the master could not be reached."""
        return self.link.send("control", JobReceived(jid, 0, runs=True))

    def on_postponed(self, jid: str, why: str) -> None:
        """Report that a job is postponed: once, and only in memory, since the disk may be full."""
        if jid in self._put_off:
            return
        self._put_off.add(jid)
        tag = f"minion/{self.start.id}/event/job/{jid}/postponed"
        fired = EventFired(f"{jid}-{self.start.session}", tag, {"jid": jid, "reason": why})
        self._outbox.add(f"event-{fired.event_id}", lambda: self.link.send("control", fired))

    @property
    def _held_chain(self) -> int:
        """Return the chain that holds back others on this host; 0: none."""
        held = self.runner.held_by
        return held.number if held is not None else 0

    def _set_chain(self, chain: int) -> None:
        held = Work(CHAIN, chain) if chain and self._waits(chain) else None
        if held != self.runner.held_by:
            self.runner.held_by = held
            self._held_since = None if held is None else self._clock.monotonic()

    def _waits(self, chain: int) -> bool:
        """Return whether a chain has to continue here, or to reboot this host at its end."""
        return self._resume_file() or self._after.awaits(chain)

    def _resume_file(self) -> bool:
        return inline.resume_file(self.start.conf_dir)

    def _release_hold(self, now: float) -> None:
        """Release other chains when the held one has ended, or has not continued in time."""
        chain = self._held_chain
        if self._held_since is None:
            return
        if self._after.awaits(chain):
            self._held_since = now
        if not self.runner.queue.waiting():
            return
        least = HOLD_DEADLINES * 60.0 * self.start.settings.reboot_deadline_minutes
        held = now - self._held_since
        overdue = held > least and held > least + self._boundary_seconds(chain)
        if overdue or not self._waits(chain) or self._was_given_up(chain):
            self.runner.held_by = None
            self._held_since = None
            self.runner.start_next()

    def _was_given_up(self, chain: int) -> bool:
        """Return whether a chain has ended, though its resume file could not be removed."""
        if not self._hold_in_doubt or self._after.awaits(chain):
            return False
        self._hold_in_doubt = False
        from catena.runtime import chain_store

        return chain_store.has_ended(self.start.cache_dir, chain)

    def _boundary_seconds(self, chain: int) -> int:
        """Return how long the master waits for the boot of a chain on this host, in seconds."""
        if self._boundary is None or self._boundary[0] != chain:
            from catena.runtime import chain_store

            self._boundary = chain, chain_store.boundary_seconds(self.start.cache_dir, chain)
        return self._boundary[1]

    # -- this host's processes ------------------------------------------------------------------

    def progressed(self, progress: JobProgress) -> None:
        """Forward a step of a running job; it is lost without a connection."""
        self.link.send("control", JobProgressed(progress))

    def printed(self, output: JobOutput) -> None:
        """Send output of a running job; see `OutputSender`."""
        now = self._clock.monotonic()
        if self._output is None:
            self._output = self._output_sender(now)
        self._output.take(output, now)

    def _output_sender(self, now: float) -> OutputSender:
        from catena.minion.link.output import OutputSender

        sender = OutputSender(partial(self.link.send, "control"))
        if self._welcome is not None:
            sender.connected(self._welcome, now)
            if not self.link.connected:
                sender.lost()
        return sender

    def fired(self, event: EventFired, told: Told, body: wire.Buffer = b"") -> None:
        """Store an event for the master; see `Events.fired`."""
        self._events.fired(event, body, told)

    def new_grains(self, grains: Dict[str, Any]) -> None:
        """Process grains that a job has collected."""
        if grains == self.start.grains:
            return
        self.start = frozen.replace(self.start, grains=grains)
        self.runner.processes.renew()
        self._tell_grains()

    @property
    def _owes_grains(self) -> bool:
        """Return whether the connected master has older grains than this agent."""
        return self.start.grains is not self._told_grains and self.link.connected

    def _tell_grains(self) -> None:
        """Send grains that have changed since the Hello; retry if the queue is full."""
        grains = self.start.grains
        if self._owes_grains and self.link.send("control", GrainsUpdate(grains)):
            self._told_grains = grains

    def restart_soon(self) -> None:
        """Restart this agent once nothing is in progress."""
        now = self._clock.monotonic()
        self._after.promise("asked", {"kind": "restart_agent"}, now, 0.0)

    def call_off(self, chain_id: int) -> None:
        """Cancel the reboot for a chain that was given up."""
        after = {"kind": "call_off", "chain_id": chain_id}
        self._after.promise("asked", after, self._clock.monotonic(), 0.0)

    def status(self) -> Dict[str, Any]:
        """Return the agent's status, for display."""
        return {
            "id": self.start.id,
            "machine_id": self.start.machine_id,
            "version": catena.__version__,
            "session": self.start.session,
            "pid": os.getpid(),
            "master": self.start.settings.master,
            "connected": self.link.connected,
            "link": self.link.state,
            "jobs": self.runner.describe(),
            "outbox": len(self._outbox),
            "line": len(self.runner.queue.waiting()),
            "held_chain": self._held_chain or None,
        }

    def close(self, reason: str) -> None:
        """Send a Goodbye and close everything; running jobs continue."""
        self.link.close(reason)
        self._events.close(self._clock.monotonic())
        self.runner.close()
