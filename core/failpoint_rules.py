"""The failpoints of catena, and what may be made to happen at them (`core.failpoints`).

The environment variable CATENA_FAILPOINTS holds `name=verb` pairs, separated by semicolons:

    agent.end.before=kill           SIGKILL of this very process
    agent.journal.write=error(ENOSPC)
    master.commit.before=sleep(500) milliseconds
    …=kill@2                        only at the second hit; without it, at the first

How often a place was hit is counted over all processes that share CATENA_FAILPOINT_LOG, a file
that gets a line for each hit, so that a process that was killed and started again goes on. The
pattern is that of etcd's gofail (`reliability.md` 3.4).
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

#: Every place, by name: which process passes it, and what has just happened or is about to.
FAILPOINTS: Mapping[str, str] = {
    "agent.order.before": "agent: an order has come, nothing of it is kept",
    "agent.order.kept": "agent: the order is durable, the master does not know it",
    "agent.fork.before": "agent: a job's process is about to be made",
    "agent.return.found": "agent: a job's return lies in its folder, nobody was told",
    "agent.return.stored": "agent: the master has stored a return, its folder is still here",
    "agent.after.due": "agent: the reboot or restart that a chain asked for is due",
    "agent.start.recovered": "agent: started, has taken up what was left, has said no word yet",
    "agent.welcome": "agent: the master has answered its first word",
    "agent.upgrade.switched": "agent: another version is current, this process is the old one",
    "agent.outbox.event": "agent: an event is kept, nobody was told",
    "worker.claimed": "job process: the job is its own, nothing was run",
    "worker.executed": "job process: the function has ended, its return is nowhere",
    "worker.returned": "job process: its return lies in its folder, not durable",
    "chain.receive.staged": "chain: every chunk is in the staging folder",
    "chain.receive.renamed": "chain: the folder has its name, the journal is not begun",
    "chain.begin.before": "chain: an action's turn, its begin is not recorded",
    "chain.begin.after": "chain: an action's begin is durable, nothing was done",
    "chain.end.before": "chain: an action has had its effect, its end is not recorded",
    "chain.end.after": "chain: an action's end is durable, nobody was told",
    "chain.armed": "chain: the reboot is armed and recorded",
    "chain.next.written": "chain: the resume file for the next chunk is there",
    "chain.chunk.results": "chain: a chunk's results are kept, its end is not recorded",
    "chain.chunk.ended": "chain: a chunk's end is recorded, its resume file is still there",
    "chain.resume.proven": "chain: the boundary is proven, the resume file is not taken",
    "chain.resume.taken": "chain: the resume file is taken, the chunk has not begun",
    "journal.write": "journal: a record is about to be written",
    "journal.written": "journal: a record is written, not synced",
    "journal.synced": "journal: a record is durable",
    "file.write": "files: the new content is about to be written beside the old",
    "file.rename": "files: the new content is durable beside the old",
    "file.renamed": "files: the new name is in the folder, the folder is not synced",
    "master.request": "master: a client's request has come",
    "master.request.kept": "master: a request and its key are in a transaction, not committed",
    "master.request.taken": "master: a request with a key is durable, its client does not know",
    "master.request.done": "master: a client's request was carried out, the client does not know",
    "master.commit.before": "master: a transaction is about to be committed",
    "master.commit.after": "master: a transaction is durable, nobody was told",
    "master.chain.due": "master: a chain is due, nothing of it is rendered",
    "master.chain.rendered": "master: the chunks are rendered, no file is written",
    "master.chain.written": "master: the chunk files are there, the job is not stored",
    "master.chain.fence": "master: a minion is about to be told to forget a run",
    "master.order.send": "master: a stored order is about to be sent",
    "master.return.received": "master: a return has come, it is not stored",
    "master.return.stored": "master: a return is stored, the minion does not know",
    "master.hello": "master: a minion says that it is here",
    "master.start.follow": "master: a start event is about to prove reboots",
    "master.reaction": "master: the reactor is about to do what an event asks for",
    "master.key.decided": "master: what was decided about a key is durable",
    "master.chunk.send": "master: a piece of a file is about to be sent",
    "ssh.put.whole": "SSH, on the host: a part is whole beside the others, it has no name yet",
    "ssh.start.staged": "SSH, on the host: a run's job is durable, its folder has no name yet",
    "ssh.start.named": "SSH, on the host: a run's folder is there, it has no runner",
    "ssh.run.claimed": "SSH runner: the run is its own, no process works on it",
    "ssh.run.named": "SSH worker: it is known by name, nothing was run",
    "ssh.result.before": "SSH worker: the function has ended, its return is not durable",
    "ssh.result.after": "SSH worker: its return is durable",
    "ssh.ack.before": "SSH, on the host: the master has a return, its run is still here",
    "reboot.before": "SSH runner: the result is durable, it asks for a reboot",
    "reboot.now": "SSH runner: the host is about to be rebooted",
    "visit.claimed": "master: a host that SSH reaches is claimed, nobody is on the way",
    "visit.looked": "master: what a visit found is durable, the visit does not go on",
    "visit.job": "visit: the master says go, the host has no job",
    "visit.returned": "visit: the host's return is here, the master does not have it",
    "visit.stored": "master: a return of a visit is durable, the host still has the run",
    "visit.kept": "visit: the return is durable, the host has not forgotten the run",
    "visit.join": "master: a host that was looked at is about to join its chain",
    "master.clean": "master: files of chunks that have ended are about to go",
}


@dataclass(frozen=True)
class Rule:
    """What happens at one place."""

    verb: str
    #: errno of an error, milliseconds of a sleep; 0 for kill.
    value: int
    #: At which hit, counted from 1.
    at: int


class Failpoints:
    """The places that are armed in this process.

    Args:
        rules: by name.
        log: file that counts the hits; "": this process counts for itself.
    """

    def __init__(self, rules: Mapping[str, Rule], log: str = "") -> None:
        self._rules = dict(rules)
        self._log = log
        self._seen: Dict[str, int] = {}

    def hit(self, name: str) -> None:
        """Pass the place *name*.

        Raises:
            OSError: that is what was asked for.
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
            # Two processes may pass it at once; each must know which hit is its own.
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, line)
            text = os.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            os.close(handle)
        return sum(1 for each in text.splitlines() if each.split()[0] == name.encode("ascii"))


def parse(text: str) -> Dict[str, Rule]:
    """Return what the environment variable asks for.

    Raises:
        UsageError: no such place or verb.
    """
    rules: Dict[str, Rule] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, what = part.partition("=")
        if name not in FAILPOINTS:
            raise UsageError(unknown("failpoint", name, FAILPOINTS))
        found = _RULE.match(what)
        if not found or (found[2] and not hasattr(errno, found[2])):
            raise UsageError(f"failpoint {name}: {what!r} is none of {', '.join(VERBS)}")
        verb = found[1].partition("(")[0]
        value = int(getattr(errno, found[2])) if found[2] else int(found[3] or 0)
        rules[name] = Rule(verb, value, int(found[4] or 1))
    return rules
