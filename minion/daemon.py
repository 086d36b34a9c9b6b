"""The minion daemon: composition root and its one loop. No threads, no asyncio, no YAML.

Started by `minion.launch` with a descriptor of its start record (`minion.blob`).
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

import catena
from catena.core.clock import Clock, SystemClock
from catena.core.errors import CatenaError, UnreachableError, UsageError
from catena.core.files import private_folder
from catena.core.ids import JidFactory
from catena.core.job import JobReturn, JobSpec
from catena.core.suggest import unknown
from catena.minion import blob, inline, upgrade
from catena.minion.afterwards import AWAIT_STORED_SECONDS, Afterwards
from catena.minion.blob import SOCKET, Start
from catena.minion.jobs import Aside
from catena.minion.local_socket import LocalConnection, LocalSocket
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.minion.master_link import MasterLink
from catena.minion.notify import Notifier
from catena.minion.outbox import EventFiles, Outbox
from catena.minion.own_jobs import OwnJobs
from catena.minion.relay import CARRIED, Relay
from catena.minion.returns import ReturnSender
from catena.minion.runner import JobRunner
from catena.transport.messages import (
    ClientItem,
    ClientReply,
    ClientRequest,
    ClientStop,
    Envelope,
    EventFired,
    EventStored,
    Failure,
    GrainsUpdate,
    Hello,
    JobCancel,
    JobOrder,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    ReturnStored,
)

#: Longest sleep: sleeps are bounded so that a lost wake-up costs a moment, never the agent.
IDLE_SECONDS = 30.0


class Daemon:
    """One minion.

    Args:
        start: what the launcher found out.
        clock: the time.
        log: where it logs.
    """

    def __init__(self, start: Start, clock: Clock, log: Log) -> None:
        self.start = dataclasses.replace(start, session=os.urandom(16).hex())
        self._clock, self._log = clock, log
        self._loop = Loop()
        self._stopping = ""
        self._open_jobs: Set[str] = set()
        self._held_since: Optional[float] = None
        self._lines: Dict[LocalConnection, List[str]] = {}
        self._notifier = Notifier.from_environment()
        self._next_sign = 0.0
        self._outbox, self._events = Outbox(), EventFiles(start.cache_dir)
        self._returns = ReturnSender(log)
        self._runner = JobRunner(self._loop, lambda: self.start, clock, log, self)
        deadline = start.settings.reboot_deadline_minutes * 60.0
        self._after = Afterwards(
            self._runner.boot_id, self.start.session, deadline, self._restart, log
        )
        self.link = MasterLink(self._loop, self._hello, self, clock, log, start)
        self._relay = Relay(self.link)
        self._local = LocalSocket(
            self._loop, start.run_dir / SOCKET, self._asked, self._hung_up, log
        )
        self._jids = JidFactory(clock.now)
        self._own = OwnJobs(start.settings, bool(start.open_chain), clock.monotonic())
        self._signals = _SignalPipe(self._loop, self._stop)

    def run(self) -> None:
        """Serve until SIGTERM."""
        now = self._clock.monotonic()
        settings = self.start.settings
        self._log.info(f"catena {catena.__version__} minion {self.start.id} starts")
        self._set_chain(self.start.open_chain)
        self._runner.recover()
        self._open_jobs |= set(self._runner.open_jobs())
        for event_id in self._events.keys():
            self._tell_event(event_id, now)
        if self.start.pending_after:
            self._after.promise("earlier", self.start.pending_after, now, AWAIT_STORED_SECONDS)
        self._notifier.send("READY=1")
        idle = settings.template_idle_minutes * 60.0
        while not self._stopping:
            self._loop.poll(self._timeout())
            now = self._clock.monotonic()
            self.link.service(now)
            self._outbox.service(now)
            self._relay.service(now)
            self._runner.tick(now)
            self._after.service(now)
            self._release_hold(now)
            self._begin_own(now)
            self._leave_template(now, idle)
            if self._notifier.interval and now >= self._next_sign:
                self._next_sign = now + self._notifier.interval
                self._notifier.send("WATCHDOG=1")
        self._close()

    def _close(self) -> None:
        self._log.info(f"stops: {self._stopping}; running jobs go on")
        self._notifier.send("STOPPING=1")
        self.link.close(self._stopping)
        self._local.close()
        self._runner.close()

    def _timeout(self) -> int:
        now = self._clock.monotonic()
        due = [now + IDLE_SECONDS, now + self.link.timeout(now) / 1000.0]
        parts = (self._outbox, self._runner, self._after, self._own)
        more = [part.next_due() for part in parts]
        due += [moment for moment in more if moment is not None]
        if self._notifier.interval:
            due.append(self._next_sign)
        if self._relay.waiting:
            due.append(now + 0.02)
        return max(0, int((min(due) - now) * 1000.0) + 1)

    # -- the master -----------------------------------------------------------------------------

    def _hello(self, first: bool) -> Hello:
        start = self.start
        return Hello(
            id=start.id,
            machine_id=start.machine_id,
            boot_id=self._runner.boot_id,
            session=start.session,
            version=catena.__version__,
            role="minion",
            first=first,
            grains=start.grains,
            open_jobs=tuple(sorted(self._open_jobs)),
            pending_resume=start.pending_resume,
        )

    def on_welcome(self, now: float) -> None:
        """The master takes us: everything that is open is said anew."""
        if upgrade.confirm(self.start.cache_dir, self.start.session):
            self._log.info(f"agent {catena.__version__} is confirmed")
        self._outbox.connected(now)
        self._runner.seen.expire(self._clock.now().timestamp())
        for jid in self._open_jobs:
            if f"ret-{jid}" not in self._outbox:
                self.link.send("control", JobReceived(jid, self._runner.position(jid)))

    def on_lost(self, socket: str) -> None:
        """A connection to the master ended."""
        self._relay.lost(socket)
        self._returns.restart()
        if socket == "control":
            self._outbox.lost()

    def on_message(self, envelope: Envelope, now: float) -> None:
        """Handle one message of the master."""
        if self._relay.answer(envelope):
            return
        message = envelope.message
        try:
            self._told(message, now)
        except (OSError, CatenaError) as error:
            # A full disk, a damaged folder. Nothing was confirmed, so that it comes again.
            self._log.error(f"{type(message).__name__} of the master can't be followed: {error}")

    def _told(self, message: Any, now: float) -> None:
        if isinstance(message, JobOrder):
            self._ordered(message.spec, now)
        elif isinstance(message, JobCancel):
            self._log.info(f"job {message.jid}: cancelled by the master: {message.reason}")
            self._runner.cancel(message.jid, message.reason)
        elif isinstance(message, ReturnStored):
            self._stored(message.jid, now)
        elif isinstance(message, EventStored):
            self._outbox.acked(f"event-{message.event_id}")
            self._events.remove(message.event_id)
        elif isinstance(message, Failure):
            self._log.warning(f"the master says {message.code}: {message.message}")

    def _ordered(self, spec: JobSpec, now: float) -> None:
        if inline.is_inline(spec.fun, self.start.cache_dir):
            if f"ret-{spec.jid}" not in self._outbox:
                ret = inline.answer(spec, self._runner, self._clock.now().timestamp())
                self._tell_inline(ret, now)
            return
        try:
            refusal = self._runner.order(spec)
        except (OSError, CatenaError) as error:
            # Not confirmed, so that the master sends it again: the disk may have room then.
            self._log.error(f"job {spec.jid} can't be kept: {error}")
            return
        if refusal:
            self.link.send("control", JobRejected(spec.jid, refusal))
            return
        if spec.jid not in self._runner.seen:
            self._open_jobs.add(spec.jid)
        if spec.fun == "mgractionchains.resume":
            self._own.resumed()
        self.link.send("control", JobReceived(spec.jid, self._runner.position(spec.jid)))
        self._runner.start_next()

    def _tell_inline(self, ret: JobReturn, now: float) -> None:
        def say() -> bool:
            try:
                return self.link.send("control", JobReturned(ret))
            except CatenaError as error:
                # An order may be larger than a return, and its arguments come back.
                text = f"The value of {ret.fun} can't be sent: {error}"
                poor = dataclasses.replace(ret, success=False, retcode=1, value=text, fun_args=())
                return self.link.send("control", JobReturned(poor))

        self._outbox.add(f"ret-{ret.jid}", say, now)
        self._outbox.service(now)

    def _begin_own(self, now: float) -> None:
        for fun, args in self._own.due(now, self.link.connected):
            if fun == "mgractionchains.resume" and not self._resume_file():
                continue
            issued = self._clock.now().timestamp()
            spec = JobSpec(self._jids(), fun, args, user="minion", issued=issued)
            try:
                self._runner.order(spec)
            except (OSError, CatenaError) as error:
                self._log.error(f"{fun} can't be begun: {error}")
                continue
            self._open_jobs.add(spec.jid)
            self._runner.start_next()

    def _stored(self, jid: str, now: float) -> None:
        self._after.stored(jid, now)
        if jid in self._open_jobs:
            # First: what can't be remembered as done is said, and stored, once more.
            self._runner.stored(jid)
            self._open_jobs.discard(jid)
        self._outbox.acked(f"ret-{jid}")
        self._returns.forget(jid)

    # -- jobs -----------------------------------------------------------------------------------

    def on_done(self, jid: str, aside: Aside) -> None:
        """A job's return is durable: say it until it is stored, then do what it asks."""
        now = self._clock.monotonic()
        folder = self._runner.store.folder(jid)
        self._open_jobs.add(jid)
        self._outbox.add(f"ret-{jid}", lambda: self._returns.say(folder, self.link), now)
        self._learn(aside)
        if aside.after:
            self._after.promise(jid, aside.after, now, AWAIT_STORED_SECONDS)
        if upgrade.wants_restart(self.start.cache_dir) and not self._runner.queue.serial_running:
            self._after.promise(jid, {"kind": "restart_agent"}, now, AWAIT_STORED_SECONDS)

    def _learn(self, aside: Aside) -> None:
        """Note what an ended job knew of chains.

        A job that the agent ended knew nothing, and one of an earlier boot may be wrong: a chain
        waits as long as its resume file is there.
        """
        waits = self._resume_file()
        if aside != Aside() or not waits:
            pending = aside.pending_resume if waits else {}
            self.start = dataclasses.replace(self.start, pending_resume=pending)
        if aside.open_chain or not waits:
            self._set_chain(aside.open_chain)

    def on_position(self, jid: str, position: int) -> None:
        """A job waits at another place in line."""
        self._open_jobs.add(jid)
        self.link.send("control", JobReceived(jid, position))

    def on_runs(self, jid: str) -> bool:
        """A job is at work; False: the master could not be told."""
        return self.link.send("control", JobReceived(jid, 0, runs=True))

    def _set_chain(self, chain: int) -> None:
        held = chain if chain and self._resume_file() else None
        if held != self._runner.pending_chain:
            self._runner.pending_chain = held
            self._held_since = None if held is None else self._clock.monotonic()

    def _resume_file(self) -> bool:
        folder = Path(self.start.conf_dir) / "minion.d"
        name = "_mgractionchains.conf"
        return (folder / name).exists() or (folder / f"{name}.running").exists()

    def _release_hold(self, now: float) -> None:
        """Let other chains go on when the held one is gone, or has not come back in time."""
        if self._held_since is None or not self._runner.queue.waiting():
            return
        limit = 2 * 60.0 * self.start.settings.reboot_deadline_minutes
        if not self._resume_file() or now - self._held_since > limit:
            self._runner.pending_chain = None
            self._held_since = None
            self._runner.start_next()

    def _leave_template(self, now: float, idle: float) -> None:
        template = self._runner.template
        if template.alive and not template.busy and not self._runner.queue.running():
            if now - template.last_used > idle:
                template.close()

    # -- this host's processes ------------------------------------------------------------------

    def _asked(self, connection: LocalConnection, envelope: Envelope) -> None:
        message = envelope.message
        now = self._clock.monotonic()
        if type(message) in CARRIED:
            self._relay.ask(connection, envelope, now)
        elif isinstance(message, JobProgressed):
            self.link.send("control", message)
        elif isinstance(message, EventFired):
            if self._events.add(message):
                self._tell_event(message.event_id, now)
            connection.send(EventStored(message.event_id), envelope.msg_id)
        elif isinstance(message, GrainsUpdate):
            self._new_grains(message.grains)
            connection.send(ClientReply(True), envelope.msg_id)
        elif isinstance(message, ClientRequest):
            self._requested(connection, envelope, message)
        elif isinstance(message, ClientStop):
            self._hung_up(connection)

    def _requested(
        self, connection: LocalConnection, envelope: Envelope, request: ClientRequest
    ) -> None:
        value: Any
        if request.verb == "running":
            value = self._runner.describe()
        elif request.verb == "signal":
            number = request.params.get("signal")
            if not isinstance(number, int):
                raise UsageError("signal: which one?")
            value = self._runner.signal(str(request.params.get("jid", "")), number)
        elif request.verb == "status":
            value = self.status()
        elif request.verb == "restart":
            now = self._clock.monotonic()
            self._after.promise("asked", {"kind": "restart_agent"}, now, 0.0)
            value = True
        elif request.verb == "call_off":
            after = {"kind": "call_off", "chain_id": request.params.get("chain_id", 0)}
            self._after.promise("asked", after, self._clock.monotonic(), 0.0)
            value = True
        elif request.verb == "line":
            self._enter_line(connection, envelope.msg_id)
            return
        else:
            verbs = ("running", "signal", "status", "restart", "call_off", "line")
            raise UsageError(unknown("request", request.verb, verbs))
        connection.send(ClientReply(value), envelope.msg_id)

    def status(self) -> Dict[str, Any]:
        """Return what this agent says of itself."""
        return {
            "id": self.start.id,
            "machine_id": self.start.machine_id,
            "version": catena.__version__,
            "session": self.start.session,
            "pid": os.getpid(),
            "master": self.start.settings.master,
            "connected": self.link.connected,
            "link": self.link.state,
            "jobs": self._runner.describe(),
            "outbox": len(self._outbox),
            "line": len(self._runner.queue.waiting()),
            "held_chain": self._runner.pending_chain,
        }

    def _enter_line(self, connection: LocalConnection, msg_id: bytes) -> None:
        """Let a `catena call` wait for its turn; it keeps it until it hangs up."""
        key = f"call-{os.urandom(8).hex()}"
        self._lines.setdefault(connection, []).append(key)

        def turn(position: int) -> None:
            if position:
                connection.send(ClientItem({"position": position}), msg_id)
            else:
                connection.send(ClientReply(True), msg_id)

        self._runner.enter_line(key, turn)

    def _hung_up(self, connection: LocalConnection) -> None:
        self._relay.gone(connection)
        for key in self._lines.pop(connection, ()):
            self._runner.leave_line(key)

    def _tell_event(self, event_id: str, now: float) -> None:
        def say() -> bool:
            event = self._events.read(event_id)
            return event is None or self.link.send("control", event)

        self._outbox.add(f"event-{event_id}", say, now)
        self._outbox.service(now)

    def _new_grains(self, grains: Dict[str, Any]) -> None:
        if grains == self.start.grains:
            return
        self.start = dataclasses.replace(self.start, grains=grains)
        # The next template is started with them.
        if not self._runner.template.busy:
            self._runner.template.close()
        self.link.send("control", GrainsUpdate(grains))

    # -- ends -----------------------------------------------------------------------------------

    def _stop(self, reason: str) -> None:
        self._stopping = reason

    def _restart(self) -> None:
        """Become the agent that `current` names, in this process."""
        self._stopping = "restart of the agent"
        self._close()
        argv = upgrade.restart_argv(self.start)
        self._log.info(f"goes on as {argv[0]}")
        os.execv(argv[0], argv)


class _SignalPipe:
    """Turns SIGTERM and SIGINT into a readable descriptor."""

    def __init__(self, loop: Loop, stop: Any) -> None:
        self._stop = stop
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        loop.watch(self._read, self._ready)

    def _ready(self, _mask: int) -> None:
        number = os.read(self._read, 16)[-1]
        self._stop(signal.Signals(number).name)


def lock(cache_dir: Path) -> int:
    """Take this minion's folders for this process, until it ends.

    Raises:
        UnreachableError: another agent has them.
    """
    path = private_folder(cache_dir) / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UnreachableError(f"{path}: another agent runs with these folders") from None
    return handle


def main() -> None:
    """Run the daemon. sys.argv[1]: descriptor of the start record."""
    start = blob.read(int(sys.argv[1]))
    clock = SystemClock()
    log = Log.open(start.settings.log_file, start.settings.log_level, clock)
    try:
        lock(start.cache_dir)
        Daemon(start, clock, log).run()
    except CatenaError as error:
        log.error(str(error))
        sys.stderr.write(f"catena minion: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
