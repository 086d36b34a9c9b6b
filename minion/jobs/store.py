"""All jobs of a minion on disk: their folders, and the log that repairs them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Container, Dict, Iterable, List, Optional, Sequence, Tuple

from catena.core import frozen, ids, payloads, records
from catena.core.chain_calls import RESUME
from catena.core.errors import CatenaError, LimitError, RecordError
from catena.core.files import (
    no_room,
    read_limited,
    size_of,
    sync_file,
    sync_folder,
)
from catena.core.job import CHAIN, JobSpec
from catena.core.records import plain
from catena.minion.jobs.folder import (
    Claim,
    JobFolder,
    JobFolderError,
    ReturnExtras,
    ReturnLostError,
    StoredSpec,
    order_of,
    return_error,
    unlink,
    unpacked_aside,
    unpacked_order,
)
from catena.minion.jobs.log import JobLog, JobLogRecord
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import entry_of
from catena.minion.records.own_folder import own_folder
from catena.minion.records.sealed import seal, unseal
from catena.transport import wire

#: Maximum bytes of a return that is stored in the log; a larger one is synced in its folder.
LOGGED_BYTES = 64 * 1024
#: Seconds after which stored returns are recorded. An agent killed before that resends a return;
#: to a master that has since deleted the job, it would be a new job.
NOTED_SECONDS = 5.0
#: Claim on a job whose process is unknown and counts as dead.
_NOBODY = Claim(ProcessRef(0, 0, ""))


class JobStore:
    """The jobs of a minion on disk. Only the daemon has one, because only it writes the log.

    Args:
        cache_dir: the agent's cache folder.
        boot_id: id of the running boot; "" if unknown: then every job that may have begun counts
            as begun.
    """

    def __init__(self, cache_dir: Path, boot_id: str = "") -> None:
        lost = "the orders that the log does not have, and which jobs have begun"
        self._folder, is_replaced = own_folder(cache_dir, "jobs", lost)
        #: The same path as text, to avoid the cost of Path objects.
        self._where = str(self._folder)
        self._boot_id = boot_id
        self._log = JobLog(cache_dir / "jobs.log")
        self._log.is_damaged |= is_replaced
        self._received = 0
        #: Open jobs without a folder: they were sent to a warm process, or a power failure took
        #: the folder and the disk is full.
        self._given: Dict[str, JobLogRecord] = {}
        #: jid -> latest start, monotonic, of jobs left by an earlier agent of this boot.
        self.begin_by: Dict[str, float] = {}
        #: Open jobs on which the log has no record, although it is not damaged otherwise. A job
        #: whose return the master has stored may be one of them after a power failure.
        self.unlogged: List[str] = []
        #: Monotonic time at which buffered records are written; 0.0: there are none.
        self._flush_at = 0.0
        #: jid and body of the return stored last, which is usually sent in the same iteration.
        self._fresh: Tuple[str, bytes] = ("", b"")

    def folder(self, jid: str) -> JobFolder:
        """Return the folder of *jid*, whether it exists or not."""
        return JobFolder(self._folder / ids.jid(jid))

    def knows(self, jid: str) -> bool:
        """Return whether *jid* was received and has not been removed since."""
        return jid in self._given or self._is_placed(jid)

    def _is_placed(self, jid: str) -> bool:
        return os.path.exists(f"{self._where}/{ids.jid(jid)}")  # noqa: PTH110  # no Path needed

    def add(
        self,
        spec: JobSpec,
        begins: bool = False,
        claim: Optional[Claim] = None,
        begin_by: float = 0.0,
    ) -> bytes:
        """Store an order durably with its number of receipt, and return it packed.

        Args:
            spec: the order.
            begins: also record that it begins, like `begin`.
            claim: the warm process that it is sent to at once; such a job has no folder.
            begin_by: latest start, monotonic; 0.0: no limit.

        Raises:
            OSError: the disk is full; nothing is stored, and the order must not be confirmed.
        """
        stored = StoredSpec(spec, self._received + 1)
        order = wire.pack_body(_to_keep(stored))
        held = records.encode(claim) if claim else {}
        known = JobLogRecord(spec.jid, self._boot_id, begins, order, claim=held, begin_by=begin_by)
        self._log.add(known)
        if claim is None:
            self._place(spec.jid, order)
        else:
            self._given[spec.jid] = known
        self._received = stored.received
        return order

    def _place(self, jid: str, order: bytes) -> None:
        folder = self.folder(jid)
        try:
            folder.place(order)
        except OSError:
            folder.remove()
            # Remove the log's record last: it repairs a half-written order after a power failure.
            sync_folder(self._folder)
            self._log.take_back()
            raise

    def spec(self, jid: str) -> JobSpec:
        """Return the order of *jid*.

        Raises:
            JobFolderError: there is none, or it is damaged.
        """
        if jid in self._given:
            return unpacked_order(self._given[jid].order).spec
        return self.folder(jid).read_spec().spec

    def has_return(self, jid: str) -> bool:
        """Return whether the outcome of *jid* is stored."""
        return self._log.has_return(jid) or self.folder(jid).has_return()

    def has_intact_return(self, folder: JobFolder) -> bool:
        """Return whether *folder* has an outcome; set a damaged one aside and report it.

        A large outcome is checked when it is sent. One that cannot be set aside counts as intact.
        """
        path = folder.return_path
        if not os.path.lexists(path):  # a link to nothing is damage
            return False
        try:
            if size_of(path) <= LOGGED_BYTES and not self._log.has_return(folder.jid):
                unseal(read_limited(path, LOGGED_BYTES))
        except (OSError, ValueError, LimitError) as error:
            if isinstance(return_error(str(path), error), ReturnLostError):
                with contextlib.suppress(CatenaError):  # it cannot be renamed
                    self._set_aside(path, "what the job returned")
                    return False
        return True

    def replace_return(self, jid: str, body: bytes) -> None:
        """Store *body* durably in place of a damaged outcome, which is set aside and reported.

        Raises:
            OSError: the disk is full.
            CannotRemoveError: the damaged outcome cannot be set aside.
        """
        path = self.folder(jid).return_path
        if os.path.lexists(path):
            self._set_aside(path, "what the job returned")
        self._log.add(JobLogRecord(jid, self._boot_id, ret=body))

    def claimed_by(self, jid: str) -> Optional[Claim]:
        """Return the claim on *jid*, or None.

        Raises:
            JobFolderError: the claim cannot be parsed.
        """
        claim = self.folder(jid).claimed_by()
        known = self._given[jid].claim if jid in self._given else {}
        return records.decode(Claim, known) if claim is None and known else claim

    def aside(self, jid: str) -> ReturnExtras:
        """Return the additional data of an outcome that is only in the log."""
        data = self._given[jid].aside if jid in self._given else b""
        return unpacked_aside(data) if data else ReturnExtras()

    def is_given(self, jid: str) -> bool:
        """Return whether *jid* is only in the log."""
        return jid in self._given

    def has_begun(self, jid: str) -> bool:
        """Return whether a process may have begun *jid*, which is only in the log."""
        line = self._given.get(jid)
        return line is not None and (line.begun or bool(line.claim))

    def goes_on(self, spec: JobSpec) -> bool:
        """Return whether a job continues work that has begun, for which it is never too late.

        A chain that was given back before it had received its chunks has not begun. Its master
        decides how long a chain may wait for its boot.
        """
        folder = self.folder(spec.jid)
        if folder.attempts() or spec.fun == RESUME:
            return True
        if not folder.is_postponed():
            return False
        work = entry_of(spec).work
        return work is None or (self._folder.parent / "chains" / str(work.number)).exists()

    def mend(self, jid: str) -> None:
        """Create the folder that *jid* needs to begin, if it is only in the log.

        Raises:
            OSError: the disk is full; the job must not begin.
        """
        if jid in self._given:
            self._mend(self.folder(jid), self._given[jid])
            del self._given[jid]

    def withdraw(self, jid: str) -> None:
        """Create the folder of a job that did not reach its warm process, for another process.

        Raises:
            JobFolderError: the disk is full; the job must not begin.
        """
        try:
            self.folder(jid).place(self._given[jid].order)
            self.begin(jid)
        except OSError as error:
            raise JobFolderError(f"{self.folder(jid).path}: {error}") from None
        del self._given[jid]

    def leave(self) -> None:
        """Create the folders of jobs in warm processes, for a next agent that may be older."""
        # A full disk, or a damaged log, which the next agent reports.
        with contextlib.suppress(OSError, ValueError):
            self._log.flush()
            for jid, line in self._given.items():
                ret = self._log.read_return(jid) if self._log.has_return(jid) else b""
                self._mend(self.folder(jid), frozen.replace(line, ret=ret))

    def begin(self, jid: str) -> None:
        """Record durably that a process may begin *jid*, so that it is not begun twice.

        Raises:
            OSError: the disk is full; the job must not begin.
        """
        self._log.add(JobLogRecord(jid, self._boot_id, begun=True))

    def keep_return(self, folder: JobFolder) -> None:
        """Make the outcome in *folder* durable.

        Raises:
            OSError: the disk is full; the outcome must not be reported.
            ReturnLostError: it is damaged.
        """
        self._given.pop(folder.jid, None)
        path, aside = folder.return_path, folder.path / "aside"
        if size_of(path) > LOGGED_BYTES or size_of(aside) > LOGGED_BYTES:
            for file in (aside, path):
                if file.exists():
                    sync_file(file)
            sync_folder(folder.path)
            sync_folder(self._folder)
            return
        try:
            ret = unseal(read_limited(path, LOGGED_BYTES))
        except (ValueError, LimitError) as error:
            raise return_error(str(path), error) from None
        beside = read_limited(aside, LOGGED_BYTES) if aside.exists() else b""
        self._log.add(JobLogRecord(folder.jid, self._boot_id, ret=ret, aside=beside))

    def keep_given(self, jid: str, body: bytes) -> None:
        """Store the outcome of a job in a warm process durably; it is stored nowhere else.

        Raises:
            OSError: the disk is full; the outcome must not be reported.
        """
        self._log.add(JobLogRecord(jid, self._boot_id, ret=body))
        self._fresh = (jid, body)

    def logged_return(self, jid: str) -> Optional[bytes]:
        """Return the body of a JobReturned in the log; None if it is only in the job's folder.

        Raises:
            ReturnLostError: it is damaged.
            JobFolderError: it cannot be read now.
        """
        if not self._log.has_return(jid):
            return None
        fresh, self._fresh = self._fresh, ("", b"")
        if fresh[0] == jid:
            return fresh[1]
        try:
            return self._log.read_return(jid)
        except (OSError, ValueError) as error:
            raise return_error(f"the return of {jid}", error) from None

    def end(self, jid: str, until: int) -> None:
        """Remove a job whose return the master has stored.

        A power failure may undo this. So may a kill of this process before `tick`, if the return
        is in the log. The return is then sent again.

        Args:
            jid: the job.
            until: time after which its order cannot arrive any more, seconds since the epoch; not
                0.

        Raises:
            OSError: the disk is full; the job is still there.
        """
        line = JobLogRecord(jid, self._boot_id, until=until)
        if self._log.has_return(jid):
            self._log.note(line)
        else:
            self._log.add(line, durable=False)
        if self._given.pop(jid, None) is None or self._is_placed(jid):
            self.folder(jid).remove()

    def ended(self) -> Dict[str, int]:
        """Return the removed jobs that are still in the log, with their `until`."""
        return {jid: line.until for jid, line in self._log.read().items() if line.until}

    def tick(self, now: float) -> None:
        """Record stored returns NOTED_SECONDS after the first; *now* is monotonic."""
        if not self._log.has_notes:
            self._flush_at = 0.0
        elif not self._flush_at:
            self._flush_at = now + NOTED_SECONDS
        elif now >= self._flush_at:
            self._flush_at = 0.0
            with contextlib.suppress(OSError):  # a full disk: the next append writes them
                self._log.flush()

    @property
    def is_long(self) -> bool:
        """Return whether the log should be shrunk."""
        return self._log.is_long

    def shrink(self) -> None:
        """Remove ended jobs from the log; their end must be durable elsewhere.

        Raises:
            OSError: the disk is full.
        """
        self._log.shrink()

    def scan(self) -> Tuple[List[StoredSpec], List[str]]:
        """Return the orders on disk in the order of their receipt, and the jids of damaged ones.

        Folders are first repaired after a power failure. A folder that is still damaged is renamed
        to jobs/bad-<jid>: it must neither prevent the daemon's start nor run. A folder without an
        order was never confirmed and is removed.
        """
        self._set_aside_misplaced()
        logged = self._log.read()
        found, bad = self._mend_all(logged.values()), []
        self._doubt(logged)
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("bad-"):
                continue
            if path.name in self._given:
                continue
            if not (path / "spec").exists():
                JobFolder(path).remove()
                continue
            try:
                stored = JobFolder(path).read_spec()
                ids.jid(path.name)
                if stored.spec.jid != path.name:
                    raise JobFolderError(f"{path}: contains the order of {stored.spec.jid}")
            except (CatenaError, RecordError):
                self._set_aside_folder(path)
                bad.append(path.name)
                continue
            found.append(stored)
        self._received = max([self._received, *(stored.received for stored in found)])
        return sorted(found, key=lambda item: item.received), bad

    def report_unlogged(self, jids: Sequence[str]) -> None:
        """Report that the log has lost its records of *jids*."""
        self._log.report_lost(len(jids))

    def _set_aside_misplaced(self) -> None:
        """Move and report whatever has the name of a job's folder or file and is neither."""
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith("bad-"):
                continue
            if path.is_symlink() or not path.is_dir():
                self._set_aside(path, "its order, unless the log has it, and its result")
                # A process may have begun the job.
                JobFolder(path).make()
                JobFolder(path).claim(_NOBODY)
                continue
            folder = JobFolder(path)
            for file in folder.misplaced():
                if file.name == "postponed":
                    # A process may have begun the job. Claim it first: this may fail.
                    folder.claim(_NOBODY)
                self._set_aside(file, "its content, unless the log has it")

    def _set_aside(self, path: Path, lost: str) -> None:
        from catena.runtime import damage

        name = "-".join(path.relative_to(self._folder).parts)
        damage.set_aside(self._folder.parent, path, lost, self._folder / f"bad-{name}")

    def _set_aside_folder(self, path: Path) -> None:
        from catena.core.removal import remove_entry

        target = self._folder / f"bad-{path.name}"
        remove_entry(target)
        path.rename(target)

    def _doubt(self, logged: Container[str]) -> None:
        """Treat open jobs without a result as begun if the log may have lost that they were.

        These are all jobs if the log is damaged; otherwise those that are not in it, as when
        records at its end are missing. The process of such a job is unknown and counts as dead, so
        the job is not begun a second time.

        Args:
            logged: jids in the log.
        """
        damaged, self._log.is_damaged = self._log.is_damaged, False
        self.unlogged = []
        for path in self._folder.iterdir():
            folder = JobFolder(path)
            if path.name.startswith("bad-") or not (path / "spec").exists():
                continue
            if not damaged and path.name in logged:
                continue
            if not (folder.has_return() or folder.is_claimed() or folder.is_postponed()):
                folder.claim(_NOBODY)
            if not damaged:
                self.unlogged.append(path.name)
        if damaged:
            self._given = {j: frozen.replace(one, begun=True) for j, one in self._given.items()}

    def _mend_all(self, lines: Iterable[JobLogRecord]) -> List[StoredSpec]:
        """Repair the folders; return the jobs whose folder does not fit on a full disk.

        Their order is in the log; `mend` creates the folder before such a job begins.
        """
        left: List[StoredSpec] = []
        for line in lines:
            if line.until:
                self.folder(line.jid).remove()
                continue
            if line.begin_by and self._boot_id and line.boot == self._boot_id:
                self.begin_by[line.jid] = line.begin_by
            line = self._with_order(line)
            if not (line.order or self._is_placed(line.jid)):
                # Damage has taken the order and the outcome: nothing is left to repair.
                continue
            try:
                self._mend(self.folder(line.jid), line)
                self._given.pop(line.jid, None)
            except OSError as error:
                if not (no_room(error) and line.order):
                    raise
                self._given[line.jid] = line
                left.append(unpacked_order(line.order))
        return left

    def _with_order(self, line: JobLogRecord) -> JobLogRecord:
        """Return *line* with an order made from its return if damage has taken the order."""
        if line.order or not line.ret or self._has_order(line.jid):
            return line
        try:
            order = order_of(line.ret, self._received)
        except CatenaError:
            return line
        return frozen.replace(line, order=wire.pack_body(_to_keep(order)))

    def _has_order(self, jid: str) -> bool:
        try:
            self.folder(jid).read_spec()
        except JobFolderError:
            return False
        return True

    def _mend(self, folder: JobFolder, line: JobLogRecord) -> None:
        """Restore what a power failure took from a folder."""
        if line.order and _content(folder.path / "spec") != line.order:
            folder.path.mkdir(mode=0o700, exist_ok=True)
            folder.write("spec", line.order)
        if line.ret:
            if line.aside and _content(folder.path / "aside") != line.aside:
                folder.write("aside", line.aside)
            if _content(folder.return_path) != seal(line.ret):
                folder.write("return", seal(line.ret))
            return
        if self._boot_id and line.boot == self._boot_id:
            if line.order and line.claim and not folder.is_claimed():
                folder.claim(records.decode(Claim, line.claim))
            return
        if folder.has_return() and _is_whole(folder.return_path):
            # The process ended after the daemon had, and the host shut down in an orderly way.
            return
        unlink(folder.return_path)
        if line.begun and not (folder.is_claimed() or folder.is_postponed()):
            # Its process may have done anything, so record a claim of a dead process.
            folder.claim(Claim(ProcessRef(0, 0, line.boot)))


def _to_keep(stored: StoredSpec) -> Any:
    """Return an order in a form that agents without payloads can read, for a downgrade."""
    payload = stored.spec.payload
    if payload is None or payload.kind != CHAIN:
        return stored
    return {**plain(stored), "spec": payloads.before_payloads(stored.spec)}


def _is_whole(path: Path) -> bool:
    try:
        return bool(unseal(_content(path)))
    except ValueError:
        return False


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
