"""Jobs from order to outcome: durable, in line, forked, watched, bounded, killed, recovered."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from catena.core.clock import Clock
from catena.core.errors import CatenaError
from catena.core.job import CHAIN_FUNCTIONS, JobReturn, JobSpec
from catena.core.redact import hide_arguments
from catena.minion.jobs.folder import Aside, Claim, JobFolder, JobFolderError
from catena.minion.jobs.ports import Listener, MakeProcesses
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import Entry, JobQueue, entry_of
from catena.minion.jobs.running import Running
from catena.minion.jobs.seen import REFUSALS, SeenJobs, expiry
from catena.minion.jobs.store import JobStore
from catena.minion.log import Log
from catena.minion.start.blob import Start
from catena.transport import wire
from catena.transport.messages import JobReturned

#: How often a job is begun whose process died: one that never began, or a chain (its journal
#: knows which actions ended). Any other job is begun once.
ATTEMPTS = 3
#: How often running jobs are looked at for what no descriptor tells.
LOOK_SECONDS = 1.0
#: How much a job may print past its functions' own capture, before it is killed.
OUTPUT_FLOOR = 1024 * 1024
#: How many of its last lines the agent's log repeats.
OUTPUT_LINES = 20


class JobRunner:
    """All jobs of a minion.

    Args:
        processes: makes what jobs run in.
        start: gives the agent's start record with the newest grains.
        clock: the time.
        log: the agent's log.
        listener: see Listener.
    """

    def __init__(
        self,
        processes: MakeProcesses,
        start: Callable[[], Start],
        clock: Clock,
        log: Log,
        listener: Listener,
    ) -> None:
        self._start, self._clock, self._log = start, clock, log
        self._listener = listener
        first = start()
        self.boot_id = first.running_boot()
        self.processes = processes(self.boot_id, self)
        self.store = JobStore(first.cache_dir, self.boot_id)
        self.seen = SeenJobs(first.cache_dir / "seen", self._wall())
        self.queue = JobQueue()
        #: Chain that waits on this host for its boot or resume; None: none.
        self.pending_chain: Optional[int] = None
        self._running: Dict[str, Running] = {}
        self._positions: Dict[str, int] = {}
        self._unclaimed: Dict[str, int] = {}
        #: Until when a job may begin, monotonic; the wall clock may be set meanwhile.
        self._until: Dict[str, float] = {}
        self._turns: Dict[str, Callable[[int], None]] = {}
        #: The order that came last, which mostly begins at once: it need not be read again.
        self._newest: Optional[JobSpec] = None
        #: Until when an order may come again, by jid: for those of this agent process.
        self._not_after: Dict[str, float] = {}
        #: Returns that are not durable yet, as they travel; None: it lies in its folder.
        self._owed: Dict[str, Optional[bytes]] = {}
        #: Jobs whose beginning was kept with the order.
        self._begun: Set[str] = set()
        #: Of those, the ones that a process is to have at once, and their orders.
        self._given: Dict[str, Tuple[ProcessRef, bytes]] = {}
        #: Jobs of chains that wait for room on the disk, or for the master.
        self._postponed: Set[str] = set()
        self._next_look = 0.0

    def recover(self) -> None:
        """Take up what an earlier agent process left: returns, running jobs, the line."""
        for jid, until in self.store.ended().items():
            self.seen.note(jid, until)
        found, bad = self.store.scan()
        self._until.update(self.store.begin_by)
        for jid in bad:
            self._log.error(f"job {jid}: its folder is damaged; moved to jobs/bad-{jid}")
        for stored in found:
            folder = self.store.folder(stored.spec.jid)
            if stored.spec.jid in self.seen:
                folder.remove()
            elif folder.has_return():
                self._done(folder.jid)
            elif self.store.has_return(stored.spec.jid):
                self._listener.on_done(stored.spec.jid, self.store.aside(stored.spec.jid))
            else:
                self._take_up(stored.spec, folder)
        self.start_next()

    def _take_up(self, spec: JobSpec, folder: JobFolder) -> None:
        if folder.is_postponed():
            self.queue.put_back(entry_of(spec))
            return
        if not (folder.is_claimed() or self.store.has_begun(spec.jid)):
            self.queue.add(entry_of(spec))
            return
        claim = self._claim(spec.jid)
        if not claim and spec.fun in CHAIN_FUNCTIONS and self.store.is_given(spec.jid):
            # Its journal knows more; it is looked into when the disk takes the job's folder.
            self.queue.put_back(entry_of(spec))
        elif claim and self.processes.alive(claim.process):
            self._log.info(f"job {spec.jid} still runs as process {claim.process.pid}")
            self.queue.attach(entry_of(spec))
            self._watch(spec, claim)
        else:
            self._died(spec, folder)

    def _claim(self, jid: str) -> Optional[Claim]:
        try:
            return self.store.claimed_by(jid)
        except JobFolderError as error:
            # Torn by a power cut: its process is of an earlier boot, and gone.
            self._log.warning(f"job {jid}: {error}")
            return None

    def open_jobs(self) -> List[str]:
        """Return the jids that were received and whose return the master has not stored."""
        found, _ = self.store.scan()
        return [stored.spec.jid for stored in found if stored.spec.jid not in self.seen]

    def order(self, spec: JobSpec) -> str:
        """Take an order; return "" or why it is refused. One that is still open is taken again.

        Raises:
            OSError: it could not be kept; it must not be confirmed.
        """
        why = self.seen.why(spec.jid)
        if why:
            return REFUSALS[why]
        if self.store.knows(spec.jid):
            return ""
        left = spec.not_after - self._wall()
        if spec.not_after and left < 0:
            return "it came too late: it may not start any more"
        entry = entry_of(spec)
        until = self._clock.monotonic() + left if spec.not_after else 0.0
        self._keep_order(spec, self.queue.starts(entry, self.pending_chain), until)
        self._newest, self._not_after[spec.jid] = spec, spec.not_after
        if until:
            self._until[spec.jid] = until
        self.queue.add(entry)
        # Told with the receipt; said again only when it changes.
        self._positions[spec.jid] = self.queue.position(spec.jid)
        self._log.info(f"job {spec.jid}: {spec.fun} for {spec.user}")
        return ""

    def _keep_order(self, spec: JobSpec, begins: bool, until: float) -> None:
        """Keep an order for good, and with it that it *begins*, and in which process."""
        # Without a boot's id nobody could tell later whether that process lives.
        process = self.processes.free(spec.fun) if begins and self.boot_id else None
        if process is None:
            # It may have to wait for another agent of this boot, though it begins at once: a kill.
            self.store.add(spec, begins, begin_by=until)
        else:
            claim = Claim(process, since=self._clock.monotonic())
            self._given[spec.jid] = (process, self.store.add(spec, begins, claim))
        if begins:
            self._begun.add(spec.jid)

    def is_given(self, jid: str) -> bool:
        """Return whether a new job is kept for a process that is there, and begins at once."""
        return jid in self._given

    def position(self, jid: str) -> int:
        """Return how many jobs come before *jid*; 0 when it runs or is done."""
        return self.queue.position(jid)

    def start_next(self) -> None:
        """Start whatever may start now, and tell the others where they stand."""
        chosen = self.queue.start(self.pending_chain)
        while chosen:
            for key in chosen:
                turn = self._turns.get(key)
                if turn is not None:
                    turn(0)
                else:
                    self._begin(key)
            # A job that could not begin has left its place to the next one.
            chosen = self.queue.start(self.pending_chain)
        for key in self.queue.waiting():
            position = self.queue.position(key)
            if self._positions.get(key) == position:
                continue
            self._positions[key] = position
            turn = self._turns.get(key)
            if turn is not None:
                turn(position)
            else:
                self._listener.on_position(key, position)

    def enter_line(self, key: str, turn: Callable[[int], None]) -> None:
        """Put a `catena call` into the line; *turn* is told its position, 0 when it may run."""
        self._turns[key] = turn
        self.queue.add(Entry(key, serial=True))
        self.start_next()

    def leave_line(self, key: str) -> None:
        """Take a `catena call` out of the line: it is done, or gone."""
        if self._turns.pop(key, None) is not None:
            self.queue.drop(key)
            self._positions.pop(key, None)
            self.start_next()

    def cancel(self, jid: str, reason: str) -> None:
        """Stop a job and its process tree, or drop it from the line; it returns as failed.

        One that has not come yet is refused when it comes.
        """
        if not self.store.knows(jid):
            if jid not in self.seen:
                self.seen.add(jid, 0, self._wall(), "cancelled")
            return
        if self.store.has_return(jid):
            return
        text = f"cancelled: {reason}" if reason else "cancelled"
        if jid in self._running:
            self._kill(jid, text)
        else:
            self._postponed.discard(jid)
            self.queue.drop(jid)
            self._fail(self.store.spec(jid), text)
            self.start_next()

    def signal(self, jid: str, number: int) -> str:
        """Send a signal to a job's process tree, or drop it from the line; return a sentence."""
        running = self._running.get(jid)
        if running is not None and running.process is not None:
            if number == 9:
                self._kill(jid, "killed")
                return f"Signal 9 sent to job {jid} at pid {running.process.pid}"
            self.processes.signal(running.process, number)
            return f"Signal {number} sent to job {jid} at pid {running.process.pid}"
        if self.queue.is_waiting(jid) and jid not in self._turns:
            self.cancel(jid, "dropped from the queue")
            return f"Job {jid} was waiting and is dropped"
        return f"no job {jid} runs here"

    def stored(self, jid: str) -> None:
        """Forget a job whose return the master has.

        Raises:
            OSError: it can't be remembered as done; it is still here.
        """
        not_after = self._not_after.pop(jid, None)
        if not_after is None:
            not_after = self.store.spec(jid).not_after if self.store.knows(jid) else 0.0
        until = expiry(not_after, self._wall())
        self.store.end(jid, until)
        self.seen.note(jid, until)
        if self.store.is_long:
            with contextlib.suppress(OSError):  # a full disk: the log stays as it is
                self.seen.save()
                self.store.shrink()

    def describe(self) -> List[Dict[str, Any]]:
        """Return running and waiting jobs as saltutil.running prints them."""
        told: List[Dict[str, Any]] = []
        for key in [*self.queue.running(), *self.queue.waiting()]:
            if key in self._turns:
                continue
            try:
                spec = self.store.spec(key)
            except CatenaError:
                continue
            running = self._running.get(key)
            pid = running.process.pid if running and running.process else 0
            told.append(
                {
                    "jid": key,
                    "fun": spec.fun,
                    "arg": hide_arguments(spec.args),
                    "kwargs": hide_arguments([spec.kwargs])[0],
                    "tgt": spec.tgt,
                    "tgt_type": spec.tgt_type,
                    "user": spec.user,
                    "ret": "",
                    "pid": pid,
                    "state": self._state(key),
                    "position": self.queue.position(key),
                }
            )
        return told

    def _state(self, key: str) -> str:
        if key in self._postponed:
            return "postponed"
        return "queued" if self.queue.is_waiting(key) else "running"

    def tick(self, now: float) -> None:
        """Look at running jobs: deadline, output, and ends that no descriptor told."""
        self.processes.tick(now)
        self.store.tick(now)
        if now < self._next_look or not (self._running or self._owed or self._postponed):
            return
        self._next_look = now + LOOK_SECONDS
        self._begin_postponed()
        for jid in list(self._owed):
            if not self._pay(jid):
                self.start_next()
        for jid, running in list(self._running.items()):
            if running.process is None:
                continue
            if not running.watched and not self.processes.alive(running.process):
                self._ended(jid)
            elif not running.killed:
                self._bound(jid, running, now)
                if not running.told and running.age(now) >= LOOK_SECONDS:
                    running.told = self._listener.on_runs(jid)

    def next_due(self) -> Optional[float]:
        """Return when `tick` has something to do; None: nothing runs."""
        due = self.processes.next_due()
        if not (self._running or self._owed or self._postponed):
            return due
        return self._next_look if due is None else min(due, self._next_look)

    def close(self) -> None:
        """Let go of everything; running jobs go on."""
        self.store.leave()
        self._running.clear()
        self.processes.close()

    def _begin(self, jid: str) -> None:
        self._positions.pop(jid, None)
        if self._give(jid) or not self._mended(jid):
            return
        folder = self.store.folder(jid)
        try:
            spec = self._spec(jid)
        except JobFolderError as error:
            self._log.error(f"job {jid}: {error}")
            self.queue.drop(jid)
            return
        if self._is_too_late(spec) and not self.store.goes_on(spec):
            self.queue.drop(jid)
            self._fail(spec, "it waited too long in the queue: it may not start any more")
            return
        if self._lacks_room(spec, folder):
            self._postpone(jid)
            return
        try:
            if jid not in self._begun:
                self.store.begin(jid)
            folder.take_up()
        except OSError:
            self._postpone(jid)
            return
        self._begun.discard(jid)
        now = self._clock.monotonic()
        self._running[jid] = Running(spec.output_limit, float(spec.deadline_seconds), now)
        try:
            self.processes.fork(jid, spec.fun, self._start(), now)
        except OSError as error:
            self._log.error(f"job {jid}: no process can be made: {error}")
            self.unforked([jid])

    def _give(self, jid: str) -> bool:
        """Give a new job to the process that it was kept for; False: it needs one of its own."""
        if jid not in self._given:
            return False
        process, order = self._given.pop(jid)
        spec = self._spec(jid)
        now = self._clock.monotonic()
        if self.processes.give(process, jid, order, lambda: self._ended(jid)):
            self._running[jid] = Running(
                spec.output_limit, float(spec.deadline_seconds), now, process, watched=True
            )
            self._begun.discard(jid)
            return True
        try:
            self.store.withdraw(jid)
        except JobFolderError as error:
            self._fail(spec, f"it could not begin: {error}")
            return True
        return False

    def _mended(self, jid: str) -> bool:
        """Give a job its folder where there was no room for it; return whether it may begin."""
        if not self.store.is_given(jid):
            return True
        try:
            self.store.mend(jid)
        except OSError:
            self._postpone(jid)
            return False
        folder = self.store.folder(jid)
        if not folder.is_claimed():
            return True
        # In an earlier boot: a chain, whose journal says where it goes on.
        self._died(self.store.spec(jid), folder)
        self.start_next()
        return False

    def _spec(self, jid: str) -> JobSpec:
        newest, self._newest = self._newest, None
        return newest if newest and newest.jid == jid else self.store.spec(jid)

    @staticmethod
    def _lacks_room(spec: JobSpec, folder: JobFolder) -> bool:
        """Return whether a chain has to wait for room on the disk before it goes on."""
        return spec.fun in CHAIN_FUNCTIONS and not folder.has_room()

    def _postpone(self, jid: str) -> None:
        """Begin a job again soon; meanwhile it keeps its place, so that none passes."""
        self._postponed.add(jid)
        why = self.store.folder(jid).hindrance()
        self._log.error(f"job {jid}: {why}; it goes on when that has passed")
        self._listener.on_postponed(jid, why)

    def _begin_postponed(self) -> None:
        for jid in [jid for jid in self._postponed if self.store.folder(jid).has_room()]:
            self._postponed.discard(jid)
            self._begin(jid)
            if jid not in self.queue.running():
                self.start_next()

    def _is_too_late(self, spec: JobSpec) -> bool:
        until = self._until.get(spec.jid)
        if until is not None:
            return self._clock.monotonic() > until
        # Of an earlier boot: there is nothing but the wall clock.
        return bool(spec.not_after) and spec.not_after < self._wall()

    def forked(self, jid: str, pid: int, start: Optional[int]) -> None:
        """As ForkListener."""
        running = self._running.get(jid)
        if running is None:
            return
        if start is None:
            self._ended(jid)
            return
        self._attach(jid, running, ProcessRef(pid, start, self.boot_id))

    def finished(self, jid: str) -> None:
        """As ForkListener."""
        self._ended(jid)

    def handed(self, jid: str, body: bytes) -> bool:
        """As ForkListener."""
        running = self._running.pop(jid, None)
        if running is None:
            return True
        if running.process is not None:
            self.processes.forget(running.process)
        self._owed[jid] = body
        self._settle(jid)
        self.start_next()
        return jid not in self._owed

    def _watch(self, spec: JobSpec, claim: Claim) -> None:
        running = Running(spec.output_limit, float(spec.deadline_seconds), claim.since)
        self._running[spec.jid] = running
        self._attach(spec.jid, running, claim.process)

    def _attach(self, jid: str, running: Running, process: ProcessRef) -> None:
        running.process = process
        running.watched = self.processes.watch(process, lambda: self._ended(jid))
        if running.killed:
            self.processes.kill(process, "")

    def unforked(self, jids: List[str]) -> None:
        """As ForkListener."""
        if jids:
            self._log.warning(f"the template process died with {len(jids)} jobs to fork")
        for jid in jids:
            self._ended(jid)

    def _ended(self, jid: str) -> None:
        running = self._running.pop(jid, None)
        if running is None:
            return
        if running.process is not None:
            self.processes.forget(running.process)
        folder = self.store.folder(jid)
        if folder.has_return():
            self._repeat_output(folder)
            self._done(jid)
        else:
            self._without_return(folder, running)
        self.start_next()

    def _repeat_output(self, folder: JobFolder) -> None:
        """Log what a job said beside its answer: warnings, a custom grain that can't be loaded."""
        if folder.output_size():
            for line in folder.output_tail().splitlines()[-OUTPUT_LINES:]:
                self._log.warning(f"job {folder.jid}: {line}")

    def _without_return(self, folder: JobFolder, running: Running) -> None:
        spec, given = self.store.spec(folder.jid), self.store.is_given(folder.jid)
        claim = self._claim(spec.jid)
        if claim and self.processes.alive(claim.process):
            # Forked twice, around a restart of the agent: the one that took the job works on.
            self._watch(spec, claim)
        elif running.killed:
            self._fail(spec, running.killed, running.age(self._clock.monotonic()))
        elif given:
            self._died(spec, folder)
        elif not folder.is_claimed() and (folder.is_postponed() or self._lacks_room(spec, folder)):
            self._postpone(spec.jid)
        elif not folder.is_claimed() and self._unclaimed.get(spec.jid, 0) + 1 < ATTEMPTS:
            self._unclaimed[spec.jid] = self._unclaimed.get(spec.jid, 0) + 1
            self.queue.drop(spec.jid)
            self.queue.put_back(entry_of(spec))
        else:
            self._died(spec, folder)

    def _died(self, spec: JobSpec, folder: JobFolder) -> None:
        """A worker ended without a return: a power cut, the OOM killer, a crash."""
        claim = self._claim(spec.jid)
        if claim:
            self.processes.kill(claim.process, claim.scope)
        chain = spec.fun in CHAIN_FUNCTIONS
        if folder.is_claimed() and chain and folder.attempts() + 1 < ATTEMPTS:
            self._log.warning(f"job {spec.jid}: its process died; going on from its journal")
            folder.release()
            self.queue.drop(spec.jid)
            self.queue.put_back(entry_of(spec))
            return
        tail = folder.output_tail()
        text = "interrupted: the job's process ended without a result; what it did is not known"
        self._fail(spec, f"{text}\n{tail}" if tail else text)

    def _fail(self, spec: JobSpec, text: str, lasted: float = 0.0) -> None:
        """Give the job a return that says why there is no other."""
        began = self._wall() - lasted
        args, boot = tuple(hide_arguments(spec.args)), self.boot_id
        ret = JobReturn(spec.jid, spec.fun, args, False, 1, text, began, lasted, boot_id=boot)
        self._owed[spec.jid] = wire.pack_body(JobReturned(ret))
        self._log.warning(f"job {spec.jid}: {text.splitlines()[0]}")
        self._settle(spec.jid)

    def _done(self, jid: str) -> None:
        """Take the return that lies in a folder."""
        self._owed[jid] = None
        self._settle(jid)

    def _settle(self, jid: str) -> None:
        self._positions.pop(jid, None)
        self._unclaimed.pop(jid, None)
        self._until.pop(jid, None)
        self._begun.discard(jid)
        self.queue.drop(jid)
        why = self._pay(jid)
        if why:
            self._log.error(f"job {jid}: its return can't be kept yet: {why}")

    def _pay(self, jid: str) -> str:
        """Make an owed return durable and tell of it; return why that is to be tried again."""
        body, aside = self._owed[jid], Aside()
        try:
            if body is not None and self.store.is_given(jid):
                self.store.keep_given(jid, body)
            else:
                folder = self.store.folder(jid)
                if body is not None:
                    folder.finish(body)
                self.store.keep_return(folder)
                aside = folder.read_aside()
        except (OSError, JobFolderError) as error:
            return str(error)
        del self._owed[jid]
        self._listener.on_done(jid, aside)
        return ""

    def _bound(self, jid: str, running: Running, now: float) -> None:
        if running.age(now) > running.deadline_seconds:
            self._kill(jid, f"killed: not done after {running.deadline_seconds:.0f} seconds")
        elif self._printed(jid, running) > max(running.spec_limit, OUTPUT_FLOOR):
            self._kill(jid, f"killed: it printed more than {running.spec_limit} bytes")

    def _printed(self, jid: str, running: Running) -> int:
        """Return how much a job has printed beside its answer, bytes."""
        if running.process is not None and self.store.is_given(jid):
            return self.processes.printed(running.process)
        return self.store.folder(jid).output_size()

    def _kill(self, jid: str, why: str) -> None:
        running = self._running[jid]
        running.killed = running.killed or why
        if running.process is not None:
            claim = self._claim(jid)
            scope = claim.scope if claim else ""
            self.processes.kill(running.process, scope)

    def _wall(self) -> float:
        return self._clock.now().timestamp()
