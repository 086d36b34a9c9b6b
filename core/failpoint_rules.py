"""The failpoints of catena, and the actions that can be armed at them (`core.failpoints`).

The environment variable CATENA_FAILPOINTS holds `name=verb` pairs, separated by semicolons:

    agent.end.before=kill           SIGKILL of the process
    agent.journal.write=error(ENOSPC)
    master.commit.before=sleep(500) milliseconds
    …=kill@2                        only at the second hit; by default at the first

Hits are counted over all processes that share CATENA_FAILPOINT_LOG. Each hit appends a line to
that file, so the count survives the restart of a killed process. The syntax follows etcd's gofail
(`reliability.md` 3.4).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import time
from typing import Dict, Mapping

from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.suggest import unknown

VERBS = ("kill", "error", "sleep")
_RULE = re.compile(r"(kill|error\(([A-Z]+)\)|sleep\((\d{1,5})\))(?:@(\d{1,6}))?\Z")

#: Name of each failpoint -> the process that reaches it, and the state at that point.
FAILPOINTS: Mapping[str, str] = {
    "agent.order.before": "agent: an order has arrived, nothing is stored",
    "agent.order.kept": "agent: the order is durable, the master is not notified",
    "agent.fork.before": "agent: a job process is about to be started",
    "agent.return.found": "agent: a job's return is in its folder, nobody is notified",
    "agent.return.stored": "agent: the master has stored a return, its folder still exists",
    "agent.after.due": "agent: a reboot or restart requested by a chain is due",
    "agent.start.recovered": "agent: started, has recovered stored jobs, has not said Hello",
    "agent.welcome": "agent: the master has answered the Hello",
    "agent.upgrade.switched": "agent: another version is current, the old one still runs",
    "agent.outbox.event": "agent: an event is stored, nobody is notified",
    "worker.claimed": "job process: has claimed the job, nothing has run",
    "worker.executed": "job process: the function has ended, its return is not stored",
    "worker.returned": "job process: its return is in its folder, not durable",
    "chain.receive.staged": "chain: every chunk is in the staging folder",
    "chain.receive.renamed": "chain: the folder has its final name, there is no journal",
    "chain.begin.before": "chain: an action is next, its begin is not recorded",
    "chain.begin.after": "chain: an action's begin is durable, nothing has run",
    "chain.end.before": "chain: an action has had its effect, its end is not recorded",
    "chain.end.after": "chain: an action's end is durable, nobody is notified",
    "chain.armed": "chain: the reboot is armed and recorded",
    "chain.next.written": "chain: the resume file for the next chunk is written",
    "chain.chunk.results": "chain: a chunk's results are stored, its end is not recorded",
    "chain.chunk.ended": "chain: a chunk's end is recorded, its resume file still exists",
    "chain.resume.proven": "chain: the boundary is proven, the resume file is not claimed",
    "chain.resume.taken": "chain: the resume file is claimed, the chunk has not begun",
    "journal.write": "journal: a record is about to be written",
    "journal.written": "journal: a record is written, not synced",
    "journal.synced": "journal: a record is durable",
    "file.write": "files: new content is about to be written to a temporary file",
    "file.rename": "files: the temporary file is durable, not renamed",
    "file.renamed": "files: the file has its final name, the folder is not synced",
    "master.request": "master: a client's request has arrived",
    "master.request.kept": "master: a request and its key are in a transaction, not committed",
    "master.request.taken": "master: a request with a key is durable, its client is not notified",
    "master.request.done": "master: a client's request was carried out, the client has no reply",
    "master.commit.before": "master: a transaction is about to be committed",
    "master.commit.after": "master: a transaction is durable, nobody is notified",
    "master.chain.due": "master: a chain is due, nothing is rendered",
    "master.chain.batch": "master: a batch of chunks is about to be rendered",
    "master.chain.rendered": "master: the chunks are rendered, no file is written",
    "master.chain.written": "master: the chunk files are written, the job is not stored",
    "master.chain.fence": "master: a minion is about to be told to forget a run",
    "master.order.send": "master: a stored order is about to be sent",
    "master.return.received": "master: a return has arrived, it is not stored",
    "master.return.stored": "master: a return is stored, the minion is not notified",
    "master.hello": "master: a minion's Hello has arrived",
    "master.start.follow": "master: a start event is about to prove reboots",
    "master.reaction": "master: the reactor is about to act on an event",
    "master.key.decided": "master: the decision about a key is durable",
    "master.chunk.send": "master: a piece of a file is about to be sent",
    "ssh.put.whole": "SSH, on the host: an uploaded part is complete, it has no final name",
    "ssh.start.staged": "SSH, on the host: a run's job is durable, its folder has no final name",
    "ssh.start.named": "SSH, on the host: a run's folder exists, it has no runner",
    "ssh.run.claimed": "SSH runner: has claimed the run, no worker process exists",
    "ssh.run.named": "SSH worker: its process id is recorded, nothing has run",
    "ssh.result.before": "SSH worker: the function has ended, its return is not durable",
    "ssh.result.after": "SSH worker: its return is durable",
    "ssh.ack.before": "SSH, on the host: the master has a return, its run still exists",
    "reboot.before": "SSH runner: the result is durable, a reboot is about to be requested",
    "reboot.now": "SSH runner: the host is about to be rebooted",
    "visit.claimed": "master: an SSH host is claimed, no visit has started",
    "visit.looked": "master: a visit's findings are durable, the visit has not continued",
    "visit.job": "visit: the master has permitted the job, the host does not have it",
    "visit.returned": "visit: the host's return has arrived, the master does not have it",
    "visit.stored": "master: a visit's return is durable, the host still has the run",
    "visit.kept": "visit: the return is durable, the host has not deleted the run",
    "visit.join": "master: a host is about to join its chain after a look at it",
    "master.clean": "master: files of ended chunks are about to be deleted",
}


@dataclass(frozen=True)
class FailpointRule:
    """What happens at one failpoint."""

    verb: str
    #: errno of an error, milliseconds of a sleep; 0 for kill.
    value: int
    #: The hit at which it happens, counted from 1.
    at: int


class Failpoints:
    """The failpoints that are armed in this process.

    Args:
        rules: by name of the failpoint.
        log: file that counts the hits of all processes; "": count only those of this process.
    """

    def __init__(self, rules: Mapping[str, FailpointRule], log: str = "") -> None:
        self._rules = dict(rules)
        self._log = log
        self._seen: Dict[str, int] = {}

    def hit(self, name: str) -> None:
        """Reach the failpoint *name*.

        Raises:
            OSError: the rule for this hit is an error.
        """
        rule = self._rules.get(name)
        if rule is None or self._count(name) != rule.at:
            return
        if rule.verb == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif rule.verb == "sleep":
            time.sleep(rule.value / 1000.0)
        else:
            raise OSError(rule.value, f"{os.strerror(rule.value)} (failpoint {name})")

    def _count(self, name: str) -> int:
        if not self._log:
            self._seen[name] = self._seen.get(name, 0) + 1
            return self._seen[name]
        line = f"{name} {os.getpid()}\n".encode("ascii")
        handle = os.open(self._log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # Two processes may reach it at once; the lock tells each the number of its hit.
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, line)
            text = os.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            os.close(handle)
        return sum(1 for each in text.splitlines() if each.split()[0] == name.encode("ascii"))


def parse(text: str) -> Dict[str, FailpointRule]:
    """Return the rules in the value of the environment variable.

    Raises:
        UsageError: a failpoint or verb does not exist.
    """
    rules: Dict[str, FailpointRule] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, what = part.partition("=")
        if name not in FAILPOINTS:
            raise UsageError(unknown("failpoint", name, FAILPOINTS))
        found = _RULE.match(what)
        if not found or (found[2] and not hasattr(errno, found[2])):
            raise UsageError(f"failpoint {name}: {what!r} is none of {', '.join(VERBS)}")
        verb = found[1].partition("(")[0]
        value = int(getattr(errno, found[2])) if found[2] else int(found[3] or 0)
        rules[name] = FailpointRule(verb, value, int(found[4] or 1))
    return rules
