"""The minion daemon: composition root and its event loop. No threads, no asyncio, no YAML.

`minion.launch` starts it with a descriptor of its start record (`minion.start.blob`).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import catena
from catena.core import failpoints, frozen
from catena.core.clock import Clock, SystemClock
from catena.core.errors import CatenaError, UnreachableError, UsageError
from catena.core.files import is_misplaced, private_folder
from catena.core.privileges import keep_files_private
from catena.core.suggest import unknown
from catena.minion import upgrade
from catena.minion.agent import Agent, Ports
from catena.minion.jobs.follow_up import Commands
from catena.minion.jobs.job_processes import JobProcesses
from catena.minion.link.local_socket import LocalCaller, LocalSocket
from catena.minion.link.master import socket_link
from catena.minion.link.relay import CARRIED
from catena.minion.log import Log
from catena.minion.loop import Loop
from catena.minion.notify import Notifier
from catena.minion.start import blob
from catena.minion.start.blob import SOCKET, StartData
from catena.transport.failures import failure_of
from catena.transport.messages import (
    ClientItem,
    ClientReply,
    ClientRequest,
    ClientStop,
    Envelope,
    EventFired,
    EventStored,
    GrainsUpdate,
    JobOutput,
    JobProgressed,
)

#: Maximum sleep in seconds, so that a missed wake-up delays the agent only briefly.
IDLE_SECONDS = 30.0


class Daemon:
    """One minion.

    Args:
        start: data from the launcher.
        clock: the time.
        log: the agent's log.
    """

    def __init__(self, start: StartData, clock: Clock, log: Log) -> None:
        start = frozen.replace(start, session=os.urandom(16).hex())
        self._clock, self._log = clock, log
        self._loop = Loop()
        self._stopping = ""
        self._lines: Dict[LocalCaller, List[str]] = {}
        self._notifier = Notifier.from_environment()
        self._next_sign = 0.0
        ports = Ports(
            lambda now: socket_link(start, self._loop, now),
            lambda boot_id, listener: JobProcesses(self._loop, boot_id, listener),
            Commands(),
            self._restart,
        )
        self.agent = Agent(start, clock, log, ports)
        self._runner = self.agent.runner
        # Before the local socket, by which others see the agent and may then send it a signal.
        self._signals = _SignalPipe(self._loop, self._stop, log)
        self._local = LocalSocket(
            self._loop, start.run_dir / SOCKET, self._asked, self._hung_up, log
        )

    def run(self) -> None:
        """Serve until SIGTERM."""
        start = self.agent.start
        self._log.info(f"catena {catena.__version__} minion {start.id} starts")
        self.agent.recover()
        failpoints.hit("agent.start.recovered")
        self._notifier.send("READY=1")
        idle = start.settings.template_idle_minutes * 60.0
        while not self._stopping:
            self._loop.poll(self._timeout())
            now = self._clock.monotonic()
            self.agent.service(now)
            if not self._runner.queue.running():
                self._runner.processes.rest(now, idle)
            if self._notifier.interval and now >= self._next_sign:
                self._next_sign = now + self._notifier.interval
                self._notifier.send("WATCHDOG=1")
        self._close()

    def _close(self) -> None:
        self._log.info(f"stops: {self._stopping}; running jobs continue")
        self._notifier.send("STOPPING=1")
        self._local.close()
        self.agent.close(self._stopping)

    def _timeout(self) -> int:
        now = self._clock.monotonic()
        due = min(now + IDLE_SECONDS, self.agent.next_due(now))
        if self._notifier.interval:
            due = min(due, self._next_sign)
        return max(0, int((due - now) * 1000.0) + 1)

    # -- this host's processes ------------------------------------------------------------------

    def _asked(self, connection: LocalCaller, envelope: Envelope) -> None:
        message = envelope.message
        if type(message) in CARRIED:
            self.agent.relay.ask(connection, envelope, self._clock.monotonic())
        elif isinstance(message, JobProgressed):
            self.agent.progressed(message.progress)
        elif isinstance(message, JobOutput):
            self.agent.printed(message)
        elif isinstance(message, EventFired):
            self._fired(connection, envelope, message)
        elif isinstance(message, GrainsUpdate):
            self.agent.new_grains(message.grains)
            connection.send(ClientReply(True), envelope.msg_id)
        elif isinstance(message, ClientRequest):
            self._requested(connection, envelope, message)
        elif isinstance(message, ClientStop):
            self._hung_up(connection)

    def _fired(self, connection: LocalCaller, envelope: Envelope, event: EventFired) -> None:
        def told(fault: Optional[Exception]) -> None:
            kept = EventStored(event.event_id)
            answer = kept if fault is None else failure_of(CatenaError(str(fault)))
            connection.send(answer, envelope.msg_id)

        self.agent.fired(event, told, envelope.body)

    def _requested(
        self, connection: LocalCaller, envelope: Envelope, request: ClientRequest
    ) -> None:
        value: Any = True
        if request.verb == "running":
            value = self._runner.describe()
        elif request.verb == "signal":
            number = request.params.get("signal")
            if not isinstance(number, int):
                raise UsageError("signal: the number of the signal is missing")
            value = self._runner.signal(str(request.params.get("jid", "")), number)
        elif request.verb == "status":
            value = self.agent.status()
        elif request.verb == "restart":
            self.agent.restart_soon()
        elif request.verb == "call_off":
            self.agent.call_off(request.params.get("chain_id", 0))
        elif request.verb == "line":
            self._enter_line(connection, envelope.msg_id)
            return
        else:
            verbs = ("running", "signal", "status", "restart", "call_off", "line")
            raise UsageError(unknown("request", request.verb, verbs))
        connection.send(ClientReply(value), envelope.msg_id)

    def _enter_line(self, connection: LocalCaller, msg_id: bytes) -> None:
        """Queue a `catena call`; it keeps its place until it disconnects."""
        key = f"call-{os.urandom(8).hex()}"
        self._lines.setdefault(connection, []).append(key)

        def turn(position: int) -> None:
            if position:
                connection.send(ClientItem({"position": position}), msg_id)
            else:
                connection.send(ClientReply(True), msg_id)

        self._runner.enter_line(key, turn)

    def _hung_up(self, connection: LocalCaller) -> None:
        self.agent.relay.gone(connection)
        for key in self._lines.pop(connection, ()):
            self._runner.leave_line(key)

    # -- ends -----------------------------------------------------------------------------------

    def _stop(self, reason: str) -> None:
        self._stopping = reason

    def _restart(self) -> None:
        """Replace this process by the agent version that `current` names."""
        self._stopping = "restart of the agent"
        self._close()
        start = self.agent.start
        argv = upgrade.restart_argv(start.settings, start.conf_dir)
        self._log.info(f"restarts as {argv[0]}")
        os.execv(argv[0], argv)


class _SignalPipe:
    """Turns SIGTERM, SIGINT and SIGHUP into a readable descriptor.

    SIGHUP reopens a log file. It stops an agent that logs to stderr, because its terminal has
    gone.
    """

    def __init__(self, loop: Loop, stop: Callable[[str], None], log: Log) -> None:
        self._stop, self._log = stop, log
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        loop.watch(self._read, self._ready)

    def _ready(self, _mask: int) -> None:
        for number in os.read(self._read, 16):
            if number == signal.SIGHUP and self._log.is_file:
                self._log.reopen()
                self._log.info("log file reopened")
            else:
                self._stop(signal.Signals(number).name)


def lock(cache_dir: Path) -> int:
    """Lock this minion's folders for this process until it ends.

    Raises:
        UnreachableError: another agent has locked them.
    """
    path = private_folder(cache_dir) / "lock"
    if is_misplaced(path):
        from catena.runtime import damage

        damage.set_aside(cache_dir, path, "nothing: it has no content")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UnreachableError(f"{path}: another agent already uses these folders") from None
    return handle


def main() -> None:
    """Run the daemon. sys.argv[1]: descriptor of the start record."""
    keep_files_private()
    start = blob.read(int(sys.argv[1]))
    clock = SystemClock()
    log = Log.open(start.settings.log_file, start.settings.log_level, clock)
    try:
        failpoints.arm(start.settings.testing)
        lock(start.cache_dir)
        Daemon(start, clock, log).run()
    except CatenaError as error:
        log.error(str(error))
        sys.stderr.write(f"catena minion: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
