"""What a job requested for after its return: a reboot of the host, or a restart of the agent.

It is done when the master has stored the return, or some seconds later without that; the return is
durable on this host in any case. The runtime records a request in its journal, so a daemon that
dies before it acts finds the request at its next start (`Start.pending_after`).
"""

from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Optional, Sequence

from catena.core import failpoints
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass, field
from catena.minion.log import Log

#: Seconds for which a reboot waits for the master to store the return.
AWAIT_STORED_SECONDS = 5.0
#: Maximum number of attempts to reboot.
ORDERS = 2


@dataclass
class Promise:
    """A request that has to be carried out."""

    #: "reboot" or "restart_agent".
    kind: str
    command: List[str]
    delay_seconds: float
    #: Latest time to act, stored or not, including the requested delay.
    due: float
    orders: int = 0
    #: Chain that made the request; 0: none.
    chain: int = 0
    #: jids whose returns contain the request: a chunk's, and those of resumes that came too early.
    keys: List[str] = field(default_factory=list)


class Commands:
    """Starts commands of this host and collects their exit codes."""

    def __init__(self) -> None:
        self._children: List[int] = []

    def start(self, command: Sequence[str]) -> None:
        """Start *command*.

        Raises:
            OSError: the program does not exist, or no process can be created.
        """
        self._children.append(spawn(list(command)))

    def failures(self) -> List[int]:
        """Return, once, the exit codes of commands that have failed since the last call."""
        codes: List[int] = []
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._children.remove(pid)
                if status:
                    codes.append(os.waitstatus_to_exitcode(status))
        return codes


class Afterwards:
    """Carries out requests; a request that several jobs return is one.

    A host that is already going down must not be rebooted again: the second command could reach
    the next boot.

    Args:
        boot_id: id of the running boot.
        session: id of this agent process.
        deadline_seconds: time after which a reboot that has not happened is requested again.
        restart: re-executes the agent; does not return.
        log: the agent's log.
        commands: runs the reboot command.
    """

    def __init__(
        self,
        boot_id: str,
        session: str,
        deadline_seconds: float,
        restart: Callable[[], None],
        log: Log,
        commands: Optional[Commands] = None,
    ) -> None:
        self._boot_id, self._session = boot_id, session
        self._deadline = deadline_seconds
        self._restart = restart
        self._log = log
        self._promises: List[Promise] = []
        self._commands = commands or Commands()

    def promise(self, key: str, after: Mapping[str, Any], now: float, wait: float) -> None:
        """Add the request of a `runtime.host.After`, unless it has happened, or withdraw it.

        Args:
            key: jid whose return is sent first.
            after: the record as data.
            now: monotonic seconds.
            wait: seconds to wait for the return to be stored.
        """
        kind, chain = str(after.get("kind", "")), int(after.get("chain_id", 0))
        if kind == "call_off":
            self._call_off(chain)
            return
        if kind == "reboot" and after.get("boot_id", "") not in ("", self._boot_id):
            if not self._boot_id:
                self._log.error(f"job {key}: cannot reboot: the id of this boot is unknown")
            return
        if kind == "restart_agent" and after.get("session", "") not in ("", self._session):
            return
        delay = float(after.get("delay_seconds", 0))
        command = [str(part) for part in after.get("command", ())]
        self._add(Promise(kind, command, delay, now + wait + delay, chain=chain, keys=[key]))

    def _add(self, new: Promise) -> None:
        for known in self._promises:
            if (known.kind, known.chain) == (new.kind, new.chain):
                known.keys += new.keys
                if not known.orders:
                    known.due = min(known.due, new.due)
                return
        self._promises.append(new)
        self._log.info(f"job {new.keys[0]}: {new.kind} follows its return")

    def _call_off(self, chain: int) -> None:
        for promise in list(self._promises):
            if chain and promise.chain == chain:
                self._promises.remove(promise)
                self._log.info(
                    f"job {promise.keys[-1]}: {promise.kind} is cancelled: "
                    f"chain {chain} was given up"
                )

    def awaits(self, chain: int) -> bool:
        """Return whether a request of *chain* has still to be carried out."""
        return any(promise.chain == chain for promise in self._promises)

    def stored(self, key: str, now: float) -> None:
        """Note that the master has stored the return: only the requested delay remains."""
        for promise in self._promises:
            if key in promise.keys and not promise.orders:
                promise.due = min(promise.due, now + promise.delay_seconds)

    def service(self, now: float) -> None:
        """Carry out what is due."""
        for code in self._commands.failures():
            self._log.error(f"the reboot command ended with {code}")
        for promise in list(self._promises):
            if promise.due > now:
                continue
            failpoints.hit("agent.after.due")
            if promise.kind != "reboot":
                self._promises.remove(promise)
                self._restart()
            elif promise.orders >= ORDERS or not promise.command:
                self._promises.remove(promise)
                self._log.error(f"job {promise.keys[-1]}: this host did not reboot")
            else:
                self._order(promise, now)

    def next_due(self) -> Optional[float]:
        """Return when `service` next has something to do; None: nothing."""
        return min((promise.due for promise in self._promises), default=None)

    def _order(self, promise: Promise, now: float) -> None:
        promise.orders += 1
        promise.due = now + self._deadline
        command = " ".join(promise.command)
        self._log.warning(f"job {promise.keys[-1]}: rebooting this host: {command}")
        try:
            self._commands.start(promise.command)
        except (OSError, CatenaError) as error:
            self._log.error(f"{promise.command[0]}: {error}")


def spawn(command: List[str]) -> int:
    """Start *command* in its own session, with stdin and stdout on /dev/null; return its pid."""
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawnp(
        command[0], command, dict(os.environ), file_actions=quiet, setsid=True, setsigmask=[]
    )
