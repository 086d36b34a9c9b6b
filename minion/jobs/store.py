"""All jobs of a minion on disk: their folders, and the log that mends them after a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Container, Dict, Iterable, List, Optional, Tuple

from catena.core import frozen, ids, records
from catena.core.chain_calls import RESUME
from catena.core.errors import CatenaError, RecordError
from catena.core.files import (
    no_room,
    private_folder,
    read_limited,
    size_of,
    sync_file,
    sync_folder,
)
from catena.core.job import JobSpec
from catena.minion.jobs.folder import (
    Aside,
    Claim,
    JobFolder,
    JobFolderError,
    StoredSpec,
    unlink,
    unpacked_aside,
    unpacked_order,
)
from catena.minion.jobs.log import JobLog, Line
from catena.minion.jobs.processes import ProcessRef
from catena.minion.jobs.queue import entry_of
from catena.minion.records.sealed import seal, unseal
from catena.transport import wire

#: A return up to this size is kept in the log; a larger one is synced where it lies.
LOGGED_BYTES = 64 * 1024
#: How soon it is written which returns the master has. A killed agent says again what was not; to
#: a master that has dropped such a job long since it would be a new one.
NOTED_SECONDS = 5.0


class JobStore:
    """Only the daemon has one: it alone writes the log.

    Args:
        cache_dir: the agent's.
        boot_id: id of the running boot; "" where it is unknown: what may have begun has.
    """

    def __init__(self, cache_dir: Path, boot_id: str = "") -> None:
        self._folder = private_folder(private_folder(cache_dir) / "jobs")
        #: The same as text: the way of a given job needs no paths.
        self._where = str(self._folder)
        self._boot_id = boot_id
        self._log = JobLog(cache_dir / "jobs.log")
        self._received = 0
        #: Open jobs whose folder nobody has made: a process has, or had, them by its line, or a
        #: power cut took the folder and the disk is full.
        self._given: Dict[str, Line] = {}
        #: Until when jobs of an earlier agent of this boot may begin, monotonic, by jid.
        self.begin_by: Dict[str, float] = {}
        #: When notes are written, monotonic; 0.0: there were none.
        self._flush_at = 0.0
        #: The return that was kept last and is not said yet: mostly it is said in the same turn.
        self._fresh: Tuple[str, bytes] = ("", b"")

    def folder(self, jid: str) -> JobFolder:
        """Return the folder of *jid*, whether it exists or not."""
        return JobFolder(self._folder / ids.jid(jid))

    def knows(self, jid: str) -> bool:
        """Return whether *jid* was received and not let go since."""
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
        """Keep an order for good, give it its place in line, and return it packed.

        Args:
            spec: the order.
            begins: as `begin` was called with it, in the same moment.
            claim: the process that it is given to at once, by its line; such a job has no folder.
            begin_by: until when it may begin, monotonic; 0.0: for ever.

        Raises:
            OSError: disk full: nothing is kept, the order must not be confirmed.
        """
        stored = StoredSpec(spec, self._received + 1)
        order = wire.pack_body(stored)
        held = records.encode(claim) if claim else {}
        known = Line(spec.jid, self._boot_id, begins, order, claim=held, begin_by=begin_by)
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
            # The line goes last: a power failure may leave half an order, which it mends.
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
        """Return whether the outcome of *jid* is there."""
        return self._log.has_return(jid) or self.folder(jid).has_return()

    def claimed_by(self, jid: str) -> Optional[Claim]:
        """Return who has *jid*, or None.

        Raises:
            JobFolderError: its name is no claim.
        """
        claim = self.folder(jid).claimed_by()
        known = self._given[jid].claim if jid in self._given else {}
        return records.decode(Claim, known) if claim is None and known else claim

    def aside(self, jid: str) -> Aside:
        """Return what belongs to an outcome that is in the log alone."""
        data = self._given[jid].aside if jid in self._given else b""
        return unpacked_aside(data) if data else Aside()

    def is_given(self, jid: str) -> bool:
        """Return whether *jid* lies in the log alone."""
        return jid in self._given

    def has_begun(self, jid: str) -> bool:
        """Return whether a process may have begun with *jid*, which lies in the log alone."""
        line = self._given.get(jid)
        return line is not None and (line.begun or bool(line.claim))

    def goes_on(self, spec: JobSpec) -> bool:
        """Return whether a job goes on with what has begun: it is never too late for that.

        A chain that was given back before its chunks were here has not begun. How long one may
        wait for its boot is its master's to say.
        """
        folder = self.folder(spec.jid)
        if folder.attempts() or spec.fun == RESUME:
            return True
        if not folder.is_postponed():
            return False
        work = entry_of(spec).work
        return work is None or (self._folder.parent / "chains" / str(work.number)).exists()

    def mend(self, jid: str) -> None:
        """Make the folder that *jid* needs to begin, where it lies in the log alone.

        Raises:
            OSError: disk full: it must not begin.
        """
        if jid in self._given:
            self._mend(self.folder(jid), self._given[jid])
            del self._given[jid]

    def withdraw(self, jid: str) -> None:
        """A given job did not reach its process: make its folder, for another one.

        Raises:
            JobFolderError: disk full: it must not begin.
        """
        try:
            self.folder(jid).place(self._given[jid].order)
            self.begin(jid)
        except OSError as error:
            raise JobFolderError(f"{self.folder(jid).path}: {error}") from None
        del self._given[jid]

    def leave(self) -> None:
        """Make the folders of given jobs: the agent that comes next may be an older one."""
        with contextlib.suppress(OSError):  # a full disk: the log knows
            self._log.flush()
            for jid, line in self._given.items():
                ret = self._log.read_return(jid) if self._log.has_return(jid) else b""
                self._mend(self.folder(jid), frozen.replace(line, ret=ret))

    def begin(self, jid: str) -> None:
        """Keep for good that a process may begin with *jid*: after a cut it must not begin twice.

        Raises:
            OSError: disk full: it must not begin.
        """
        self._log.add(Line(jid, self._boot_id, begun=True))

    def keep_return(self, folder: JobFolder) -> None:
        """Make the outcome that lies in *folder* durable.

        Raises:
            OSError: disk full: it must not be told.
            JobFolderError: it is damaged.
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
        except ValueError as error:
            raise JobFolderError(f"{path}: {error}") from None
        beside = read_limited(aside, LOGGED_BYTES) if aside.exists() else b""
        self._log.add(Line(folder.jid, self._boot_id, ret=ret, aside=beside))

    def keep_given(self, jid: str, body: bytes) -> None:
        """Make the outcome of a given job durable, of which nothing lies anywhere else.

        Raises:
            OSError: disk full: it must not be told.
        """
        self._log.add(Line(jid, self._boot_id, ret=body))
        self._fresh = (jid, body)

    def logged_return(self, jid: str) -> Optional[bytes]:
        """Return the body of a JobReturned that is in the log; None: it is in its folder alone.

        Raises:
            JobFolderError: it can't be read.
        """
        if not self._log.has_return(jid):
            return None
        fresh, self._fresh = self._fresh, ("", b"")
        if fresh[0] == jid:
            return fresh[1]
        try:
            return self._log.read_return(jid)
        except (OSError, ValueError) as error:
            raise JobFolderError(f"the return of {jid}: {error}") from None

    def end(self, jid: str, until: int) -> None:
        """Let a job go whose return the master has.

        A power cut may take this, and of a return that is in the log a kill of this process in the
        seconds until `tick`: it is then there, and said once more.

        Args:
            jid: the job.
            until: when its order can come no more, seconds since the epoch; not 0.

        Raises:
            OSError: disk full: it is still here.
        """
        line = Line(jid, self._boot_id, until=until)
        if self._log.has_return(jid):
            self._log.note(line)
        else:
            self._log.add(line, durable=False)
        if self._given.pop(jid, None) is None or self._is_placed(jid):
            self.folder(jid).remove()

    def ended(self) -> Dict[str, int]:
        """Return the jobs that were let go and are in the log still, with their `until`."""
        return {jid: line.until for jid, line in self._log.read().items() if line.until}

    def tick(self, now: float) -> None:
        """Write which returns the master has, some seconds after; *now* is monotonic."""
        if not self._log.has_notes:
            self._flush_at = 0.0
        elif not self._flush_at:
            self._flush_at = now + NOTED_SECONDS
        elif now >= self._flush_at:
            self._flush_at = 0.0
            with contextlib.suppress(OSError):  # a full disk: they come with the next line
                self._log.flush()

    @property
    def is_long(self) -> bool:
        """Whether it is time to `shrink`."""
        return self._log.is_long

    def shrink(self) -> None:
        """Forget jobs that were let go; that they are done must be durable elsewhere.

        Raises:
            OSError: no room.
        """
        self._log.shrink()

    def scan(self) -> Tuple[List[StoredSpec], List[str]]:
        """Return the orders on disk in the order of their receipt, and the jids of damaged ones.

        What a power cut took is mended first. A folder that is damaged all the same is moved
        aside, as jobs/bad-<jid>: it must neither stop the daemon's start nor be run. One without
        an order was never confirmed: it goes.
        """
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
                    raise JobFolderError(f"{path}: holds the order of {stored.spec.jid}")
            except (CatenaError, RecordError):
                JobFolder(self._folder / f"bad-{path.name}").remove()
                path.rename(self._folder / f"bad-{path.name}")
                bad.append(path.name)
                continue
            found.append(stored)
        self._received = max([self._received, *(stored.received for stored in found)])
        return sorted(found, key=lambda item: item.received), bad

    def _doubt(self, logged: Container[str]) -> None:
        """Take open jobs without a result for begun where the log may have lost that they were.

        Of a damaged log these are all jobs; otherwise those that are not in it, as when lines at
        its end are missing. The process of such a job is not known, so that it counts as dead: the
        job is not begun a second time.

        Args:
            logged: jids that the log knows.
        """
        damaged, self._log.is_damaged = self._log.is_damaged, False
        nobody = Claim(ProcessRef(0, 0, ""))
        for path in self._folder.iterdir():
            folder = JobFolder(path)
            if path.name.startswith("bad-") or not (path / "spec").exists():
                continue
            if not damaged and path.name in logged:
                continue
            if not (folder.has_return() or folder.is_claimed() or folder.is_postponed()):
                folder.claim(nobody)
        if damaged:
            self._given = {j: frozen.replace(one, begun=True) for j, one in self._given.items()}

    def _mend_all(self, lines: Iterable[Line]) -> List[StoredSpec]:
        """Mend the folders; return the jobs whose folder a full disk does not take.

        Their order is in the log: one that has still to begin gets its folder then, by `mend`.
        """
        left: List[StoredSpec] = []
        for line in lines:
            if line.until:
                self.folder(line.jid).remove()
                continue
            if line.begin_by and self._boot_id and line.boot == self._boot_id:
                self.begin_by[line.jid] = line.begin_by
            try:
                self._mend(self.folder(line.jid), line)
                self._given.pop(line.jid, None)
            except OSError as error:
                if not (no_room(error) and line.order):
                    raise
                self._given[line.jid] = line
                left.append(unpacked_order(line.order))
        return left

    def _mend(self, folder: JobFolder, line: Line) -> None:
        """Give a folder what a power cut took of it."""
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
            # Its process ended after the daemon had; the host went down in good order.
            return
        unlink(folder.return_path)
        if line.begun and not (folder.is_claimed() or folder.is_postponed()):
            # Its process may have done anything: the same as one that is known, and dead.
            folder.claim(Claim(ProcessRef(0, 0, line.boot)))


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
