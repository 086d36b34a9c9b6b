"""What a job asked for after its return: a reboot of the host, or a restart of the agent.

Done when the master has stored the return, or a few seconds after it could not be reached: the
return is durable here either way. The runtime knows from its own journal what was promised, so a
daemon that dies before it acts finds the promise at its next start (`Start.pending_after`).
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from catena.core import failpoints
from catena.core.errors import CatenaError
from catena.core.frozen import dataclass
from catena.minion.log import Log

#: How long the master has to store the return before the reboot goes on without its word.
AWAIT_STORED_SECONDS = 5.0
#: A reboot is ordered this often before it has failed.
ORDERS = 2


@dataclass
class Promise:
    """One thing that has to be done."""

    #: "reboot" or "restart_agent".
    kind: str
    command: List[str]
    delay_seconds: float
    #: When it is done at the latest, stored or not, delay included.
    due: float
    orders: int = 0
    #: Chain that asked for it; 0: none.
    chain: int = 0


class Commands:
    """Starts commands of this host and collects what they came to."""

    def __init__(self) -> None:
        self._children: List[int] = []

    def start(self, command: Sequence[str]) -> None:
        """Start *command*.

        Raises:
            OSError: there is no such program, or no process can be made.
        """
        self._children.append(spawn(list(command)))

    def failures(self) -> List[int]:
        """Return, once, the exit codes of commands that have failed since."""
        codes: List[int] = []
        for pid in list(self._children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._children.remove(pid)
                if status:
                    codes.append(os.waitstatus_to_exitcode(status))
        return codes


class Afterwards:
    """Keeps promises; at most one per job.

    Args:
        boot_id: id of the running boot.
        session: id of this agent process.
        deadline_seconds: a reboot that has not happened by then is ordered once more.
        restart: re-executes the agent; does not return.
        log: the agent's log.
        commands: what the reboot is ordered by.
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
        self._promises: Dict[str, Promise] = {}
        self._commands = commands or Commands()

    def promise(self, key: str, after: Mapping[str, Any], now: float, wait: float) -> None:
        """Take on what `runtime.host.After` asks, unless it has happened already; or call it off.

        Args:
            key: jid whose return goes first.
            after: the record as data.
            now: monotonic seconds.
            wait: how long the return may take to be stored.
        """
        kind, chain = str(after.get("kind", "")), int(after.get("chain_id", 0))
        if kind == "call_off":
            self._call_off(chain)
            return
        if kind == "reboot" and after.get("boot_id", "") not in ("", self._boot_id):
            if not self._boot_id:
                self._log.error(f"job {key}: no reboot follows: this agent knows no boot id")
            return
        if kind == "restart_agent" and after.get("session", "") not in ("", self._session):
            return
        delay = float(after.get("delay_seconds", 0))
        command = [str(part) for part in after.get("command", ())]
        due = now + wait + delay
        self._promises[key] = Promise(kind, command, delay, due, chain=chain)
        self._log.info(f"job {key}: {kind} follows its return")

    def _call_off(self, chain: int) -> None:
        for key, promise in list(self._promises.items()):
            if chain and promise.chain == chain:
                del self._promises[key]
                self._log.info(
                    f"job {key}: {promise.kind} is called off, chain {chain} is given up"
                )

    def awaits(self, chain: int) -> bool:
        """Return whether something that *chain* asked for has still to be done."""
        return any(promise.chain == chain for promise in self._promises.values())

    def stored(self, key: str, now: float) -> None:
        """The master has the return: no more waiting but the delay that was asked for."""
        promise = self._promises.get(key)
        if promise is not None and promise.orders == 0:
            promise.due = min(promise.due, now + promise.delay_seconds)

    def service(self, now: float) -> None:
        """Do what is due."""
        for code in self._commands.failures():
            self._log.error(f"the reboot command ended with {code}")
        for key, promise in list(self._promises.items()):
            if promise.due > now:
                continue
            failpoints.hit("agent.after.due")
            if promise.kind != "reboot":
                del self._promises[key]
                self._restart()
            elif promise.orders >= ORDERS or not promise.command:
                del self._promises[key]
                self._log.error(f"job {key}: this host did not reboot")
            else:
                self._order(key, promise, now)

    def next_due(self) -> Optional[float]:
        """Return when `service` has something to do; None: nothing."""
        return min((promise.due for promise in self._promises.values()), default=None)

    def _order(self, key: str, promise: Promise, now: float) -> None:
        promise.orders += 1
        promise.due = now + self._deadline
        self._log.warning(f"job {key}: rebooting this host: {' '.join(promise.command)}")
        try:
            self._commands.start(promise.command)
        except (OSError, CatenaError) as error:
            self._log.error(f"{promise.command[0]}: {error}")


def spawn(command: List[str]) -> int:
    """Start *command* in its own session, reading and writing nothing; return its pid."""
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawnp(
        command[0], command, dict(os.environ), file_actions=quiet, setsid=True, setsigmask=[]
    )
