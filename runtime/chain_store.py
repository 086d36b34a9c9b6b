"""A host's files of its chains: manifest, chunks, journal, results of chunks.

All files of a chain are in `<cache_dir>/chains/<id>/`, hash-checked and durable before its first
action. The folder gets its name by one rename, so a chain is received completely or not at all. A
lock ensures that only one process at a time runs chains on a host.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core import failpoints
from catena.core.chain_calls import BUSY
from catena.core.clock import Clock
from catena.core.context import Distant, FileClient, FileEntry
from catena.core.digest import hex_of
from catena.core.errors import (
    CatenaError,
    CommandExecutionError,
    InvalidStateError,
    LimitError,
    TryLaterError,
)
from catena.core.files import (
    durable_folder,
    is_misplaced,
    private_folder,
    read_limited,
    rename_durable,
    sync_folder,
    write_durable,
)
from catena.core.job import BOUNDARY_SECONDS, ActionManifest, ChainManifest, ChunkManifest
from catena.core.logs import logger
from catena.core.records import decode, encode
from catena.core.run_ref import RunRef
from catena.runtime import chain_manifest
from catena.runtime.chain_record import CHAIN, JournaledChain, apply, fold
from catena.runtime.damage import Damage, report, set_aside
from catena.runtime.journal import Journal, Record, drop_reserve, read_records
from catena.runtime.resume_file import SOME_MINION, clear_command
from catena.runtime.sealed_results import sealed_results, unsealed_results

log = logger(__name__)

#: Command that gives up an unreadable chain.
CLEAR = clear_command(SOME_MINION)
MANIFEST_LIMIT = 64 * 1024 * 1024
#: Maximum digits of a chain's number.
_NUMBER_LIMIT = 19
RESULTS_LIMIT = 256 * 1024 * 1024
_GONE = "it no longer exists"
#: Maximum number of ended chains whose folders are kept; the oldest are removed at a receipt.
KEEP_ENDED = 20


class FencedError(InvalidStateError):
    """The order is older than this host's run of the chain."""


class ChainDamagedError(CatenaError):
    """The files of a received chain are damaged."""


class ChainChangedError(CatenaError):
    """Two different chains arrived with the same id and epoch."""


class Chain:
    """One received chain.

    Args:
        folder: with its files.
        boot_id: id of the running boot, for its records.
        session: id of the agent process, for its records.
        clock: the time, for its records.
        journal: the open journal; None for reading only.
    """

    def __init__(
        self,
        folder: Path,
        stamp: Dict[str, Any],
        clock: Optional[Clock] = None,
        journal: Optional[Journal] = None,
    ) -> None:
        self.folder = folder
        body, records = _read_pair(folder, journal)
        self.manifest = _manifest_of(folder / "manifest.json", body)
        self._stamp = stamp
        self._clock = clock
        self._journal = journal
        _refuse_unlike(folder, body, records)
        self.view: JournaledChain = fold(records)

    @property
    def ended(self) -> bool:
        """Return whether the chain has ended on this host."""
        return CHAIN.is_final(self.view.state)

    def chunk(self, number: int) -> ChunkManifest:
        """Return the manifest of a chunk, counted from 1.

        Raises:
            InvalidStateError: it has no such chunk.
        """
        if not 1 <= number <= len(self.manifest.chunks):
            raise InvalidStateError(
                f"chain {self.manifest.chain_id} has {len(self.manifest.chunks)} chunks, "
                f"no chunk {number}"
            )
        return self.manifest.chunks[number - 1]

    def boundary_action(self, number: int) -> Optional[ActionManifest]:
        """Return the action that causes the boundary at the end of a chunk (its last), or None."""
        actions = self.chunk(number).actions
        return actions[-1] if actions else None

    def record(self, kind: str, use_reserve: bool = False, **fields: Any) -> None:
        """Write one record durably and update the view.

        Raises:
            OSError: it is not on disk; the action that it announces must not happen.
        """
        if self._journal is None:
            raise InvalidStateError(f"chain {self.manifest.chain_id} is open for reading only")
        record: Record = {"kind": kind, **fields, **self._stamp, "epoch": self.manifest.epoch}
        if self._clock:
            record["at"] = self._clock.now().timestamp()
        # Update the view first: an impossible record must not reach the disk.
        try:
            apply(self.view, record)
            self._journal.append(record, use_reserve)
        except BaseException:
            self.view = fold(self._journal.records)
            raise
        if self.ended:
            self._journal.release_reserve()

    def files(self) -> Dict[str, Path]:
        """Return the chunk files by the paths at which their SLS names are looked up."""
        found = {}
        for chunk in self.manifest.chunks:
            stem = chunk.sls.partition(".")[2]
            local = self.folder / f"{stem}.sls"
            for name in (stem, stem.replace(".", "/")):
                found[f"{chain_manifest.FOLDER}/{name}.sls"] = local
        return found

    def check_chunk(self, number: int) -> None:
        """Refuse to continue with a chunk file that differs from the received one.

        Raises:
            CommandExecutionError: it was changed or removed on this host's disk.
        """
        chunk = self.chunk(number)
        path = self.folder / f"{chunk.sls.partition('.')[2]}.sls"
        lost = "this chunk: the chain does not continue"
        data = self._read(path, chain_manifest.CHUNK_SIZE_LIMIT, lost)
        try:
            chain_manifest.check_bytes(data, chunk, str(path))
        except CatenaError as error:
            self._report(path, error, lost, data)
            raise

    def save_results(self, number: int, results: Dict[str, Any]) -> None:
        """Store the results of a chunk durably, before its `chunk_end` is recorded."""
        data = sealed_results(results)
        try:
            write_durable(self.folder / f"results_{number}.json", data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or self._journal is None:
                raise
            self._journal.release_reserve()
            write_durable(self.folder / f"results_{number}.json", data)

    def release_reserve(self) -> None:
        """Release the disk space reserved for the ends of actions, because one needs it now."""
        drop_reserve(self.folder / "journal")

    def results(self, number: int) -> Dict[str, Any]:
        """Return the results of an ended chunk.

        Raises:
            CatenaError: they were changed or removed on this host's disk.
        """
        path, lost = self.folder / f"results_{number}.json", "the results of this chunk's states"
        data = self._read(path, RESULTS_LIMIT, lost)
        try:
            return unsealed_results(path, data)
        except CatenaError as error:
            self._report(path, error, lost, data)
            raise

    def _read(self, path: Path, limit: int, lost: str) -> bytes:
        try:
            return read_limited(path, limit)
        except (FileNotFoundError, LimitError) as error:
            what = str(error).replace(f"{path}: ", "") if isinstance(error, LimitError) else _GONE
            self._report(path, what, lost)
            raise CommandExecutionError(f"{path}: {what}") from None

    def _report(self, path: Path, error: object, lost: str, data: Optional[bytes] = None) -> None:
        cache_dir = self.folder.parent.parent
        report(cache_dir, Damage(str(path), str(error), "", lost), data)


class ChainStore:
    """All chains of a host.

    Args:
        cache_dir: the agent's private folder.
        boot_id: id of the running boot.
        session: id of the agent process, or "".
        clock: the time.
    """

    def __init__(self, cache_dir: Path, boot_id: str, session: str, clock: Clock) -> None:
        self.folder = cache_dir / "chains"
        self._stamp = {"boot_id": boot_id, "session": session}
        self._clock = clock

    @contextmanager
    def lock(self, wait: bool = True, chain_id: int = 0) -> Iterator[None]:
        """Be the only process of this host that runs a chain.

        Args:
            wait: wait for another process to end; otherwise raise at once.
            chain_id: the chain that this process may run, for `holder`; 0: any.

        Raises:
            TryLaterError: another process holds the lock, and *wait* is false.
        """
        private_folder(durable_folder(self.folder))
        path = self.folder / ".lock"
        if is_misplaced(path):
            set_aside(self.folder.parent, path, "nothing: it only names the chain that runs")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise TryLaterError(BUSY) from None
            _write_holder(handle, chain_id)
            try:
                yield
            finally:
                _write_holder(handle, 0)
        finally:
            os.close(handle)

    def holder(self) -> int:
        """Return the only chain that the lock's holder may run; 0: it may be any.

        Raises:
            OSError, LimitError: the lock can't be read.
        """
        text = read_limited(self.folder / ".lock", _NUMBER_LIMIT)
        return int(text) if text.isdigit() else 0

    def look(self, chain_id: int) -> Optional[Chain]:
        """Return a received chain for reading, or None."""
        folder = self.folder / str(chain_id)
        try:
            return Chain(folder, self._stamp)
        except FileNotFoundError:
            if (folder / "manifest.json").exists():
                raise
            return None

    @contextmanager
    def open(self, chain_id: int) -> Iterator[Optional[Chain]]:
        """Yield a received chain for writing, or None; the lock must be held."""
        folder = self.folder / str(chain_id)
        if not (folder / "manifest.json").exists():
            yield None
            return
        with Journal(folder / "journal") as journal:
            yield Chain(folder, self._stamp, self._clock, journal)

    def chains(self) -> List[Chain]:
        """Return every received chain for reading, newest first."""
        if not self.folder.is_dir():
            return []
        folders = [f for f in self.folder.iterdir() if (f / "manifest.json").exists()]
        folders = [f for f in folders if f.name.isdigit()]
        folders.sort(key=lambda f: f.stat().st_mtime, reverse=True)
        found = []
        for folder in folders:
            try:
                found.append(Chain(folder, self._stamp))
            except (CatenaError, OSError, ValueError) as error:
                if not (folder / "manifest.json").exists():
                    # A newer run of the chain is just replacing this one.
                    continue
                # The agent must start nevertheless. A job of this chain fails with the reason.
                log.error("chain %s can't be read: %s", folder, error)
                report(self.folder.parent, _damage(folder, error))
        return found

    def set_aside_damaged(self, run: Optional[RunRef]) -> bool:
        """Move folders of unreadable chains aside; return whether there was one.

        Args:
            run: only of this run or an older one of its chain; None: of any chain. They are
                renamed to `.old-…`.
        """
        readable = {chain.folder for chain in self.chains()}
        found = False
        for folder in self.folder.iterdir():
            if not folder.name.isdigit() or folder in readable:
                continue
            if run is None or run.covers(int(folder.name), _epoch_of(folder)):
                aside = f".old-{folder.name}-damaged-{time.time_ns()}"
                rename_durable(folder, self.folder / aside)
                found = True
        return found

    def sweep(self) -> None:
        """Remove partly received chains after a crash; the lock must be held."""
        for staging in self.folder.glob(".new-*"):
            shutil.rmtree(staging, ignore_errors=True)

    def receive(self, manifest: ChainManifest, files: FileClient) -> None:
        """Fetch all chunks of a chain and store them durably; a known chain stays unchanged.

        Args:
            manifest: checked (`chain_manifest.check`).
            files: source of the chunks.

        Raises:
            FencedError: this host has the chain with a higher epoch.
            ChainChangedError: another unfinished chain has the same id and epoch.
            CommandExecutionError: a chunk is missing or differs from the manifest.
            ChainDamagedError: this host has the chain's folder, but no manifest in it.
            OSError: it could not be stored; nothing was received.
        """
        known = self.look(manifest.chain_id)
        if known and not self._replaces(manifest, known):
            # The process that received it may have been killed before its name was durable.
            sync_folder(self.folder)
            return
        if not known:
            self._refuse_without_manifest(self.folder / str(manifest.chain_id))
        texts = [chain_manifest.fetch_chunk(files, chunk) for chunk in manifest.chunks]
        private_folder(durable_folder(self.folder))
        staging = self.folder / f".new-{manifest.chain_id}"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        for chunk, data in zip(manifest.chunks, texts):
            write_durable(staging / f"{chunk.sls.partition('.')[2]}.sls", data)
        body = json.dumps(encode(manifest)).encode("ascii")
        write_durable(staging / "manifest.json", body)
        self._begin_journal(staging, manifest, body)
        failpoints.hit("chain.receive.staged")
        target = self.folder / str(manifest.chain_id)
        if known:
            shutil.rmtree(self._old(known), ignore_errors=True)
            rename_durable(target, self._old(known))
        rename_durable(staging, target)
        failpoints.hit("chain.receive.renamed")
        self._forget_old()

    def _refuse_without_manifest(self, folder: Path) -> None:
        """Refuse to receive a chain again of which this host has a part: it may have begun."""
        if not folder.exists():
            return
        path = folder / "manifest.json"
        lost = "which run this is, and so which of its actions have run"
        report(self.folder.parent, Damage(str(path), _GONE, "its journal", lost))
        raise ChainDamagedError(
            f"{path}: {_GONE}; check what has run, then give that chain up: {CLEAR}"
        )

    def _begin_journal(self, staging: Path, manifest: ChainManifest, body: bytes) -> None:
        """Write the first record before the chain has its name: an empty journal is damage."""
        record = {"kind": "received", "manifest": hex_of(body), **self._stamp}
        with Journal(staging / "journal") as journal:
            at = self._clock.now().timestamp()
            journal.append({**record, "epoch": manifest.epoch, "at": at})

    def _old(self, chain: Chain) -> Path:
        return self.folder / f".old-{chain.manifest.chain_id}-{chain.manifest.epoch}"

    @staticmethod
    def _replaces(manifest: ChainManifest, known: Chain) -> bool:
        """Return whether an order replaces the chain here, rather than repeating it."""
        if manifest.epoch > known.manifest.epoch:
            return True
        if manifest.epoch < known.manifest.epoch:
            raise FencedError(
                f"chain {manifest.chain_id}: order of epoch {manifest.epoch}, "
                f"this host has epoch {known.manifest.epoch}"
            )
        if manifest == known.manifest:
            return False
        if not known.ended:
            raise ChainChangedError(
                f"chain {manifest.chain_id} of epoch {manifest.epoch} was sent again with other "
                "chunks"
            )
        # A newly installed master numbers its chains from the beginning.
        return True

    def _forget_old(self) -> None:
        ended = [chain.folder for chain in self.chains() if chain.ended]
        old = sorted(self.folder.glob(".old-*"), key=lambda f: f.stat().st_mtime, reverse=True)
        for folder in ended[KEEP_ENDED:]:
            # A crash must not leave a part of the chain under its number; `sweep` removes this.
            doomed = folder.with_name(f".new-{folder.name}-ended")
            shutil.rmtree(doomed, ignore_errors=True)
            folder.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        for folder in old[KEEP_ENDED:]:
            shutil.rmtree(folder, ignore_errors=True)
        sync_folder(self.folder)


def _read_pair(folder: Path, journal: Optional[Journal]) -> Tuple[bytes, Sequence[Record]]:
    """Return the manifest and the journal's records of the same run.

    Without the chains' lock, a newer run may replace the folder between the two reads.
    """
    while True:
        number = folder.stat().st_ino
        body = read_limited(folder / "manifest.json", MANIFEST_LIMIT)
        records = journal.records if journal else read_records(folder / "journal")
        # The replaced folder is kept beside it, so that its inode number is not reused.
        if folder.stat().st_ino == number:
            return body, records


def _epoch_of(folder: Path) -> int:
    """Return the epoch of a chain with an unreadable journal; 0 if it is unknown."""
    try:
        data = json.loads(read_limited(folder / "manifest.json", MANIFEST_LIMIT))
        return decode(ChainManifest, data, str(folder)).epoch
    except (CatenaError, OSError, ValueError):
        return 0


def _manifest_of(path: Path, body: bytes) -> ChainManifest:
    try:
        return decode(ChainManifest, json.loads(body), str(path))
    except (ValueError, CatenaError) as error:
        raise ChainDamagedError(f"{path}: {error}; to give that chain up: {CLEAR}") from None


def _refuse_unlike(folder: Path, body: bytes, records: Sequence[Record]) -> None:
    """Refuse a chain whose progress is unknown or whose manifest differs from the received one."""
    if not records:
        raise ChainDamagedError(f"{folder / 'journal'}: no record; to give that chain up: {CLEAR}")
    told = records[0].get("manifest")
    if told and told != hex_of(body):
        raise ChainDamagedError(
            f"{folder / 'manifest.json'}: not what was received; to give that chain up: {CLEAR}"
        )


def _damage(folder: Path, error: Exception) -> Damage:
    lost = "the progress of the chain: nothing of it runs again until somebody clears it"
    return Damage(str(folder), str(error), "its files, in their place", lost)


def boundary_seconds(cache_dir: Path, chain_id: int) -> int:
    """Return how long the master waits for the boot of a chain, in seconds, by its manifest."""
    try:
        path = cache_dir / "chains" / str(chain_id) / "manifest.json"
        told = _manifest_of(path, read_limited(path, MANIFEST_LIMIT)).boundary_seconds
    except (CatenaError, OSError, ValueError):
        # It is missing or unreadable; a job of this chain reports that.
        told = None
    return BOUNDARY_SECONDS if told is None else told


def has_ended(cache_dir: Path, chain_id: int) -> bool:
    """Return whether the journal of a chain says that it has ended on this host."""
    try:
        return Chain(cache_dir / "chains" / str(chain_id), {}).ended
    except (CatenaError, OSError, ValueError):
        # It is missing or unreadable; a job of this chain reports that.
        return False


class PinnedFiles:
    """A file client that uses the received chunk files; all other files are *inner*'s."""

    def __init__(self, inner: FileClient, pinned: Dict[str, Path]) -> None:
        self._inner = inner
        self._pinned = pinned

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return the received chunk, or what *inner* has."""
        return self._pinned.get(path) or self._inner.fetch(path, saltenv)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return received chunks, or the files of *inner*, in the order of *paths*."""
        theirs = [path for path in paths if path not in self._pinned]
        found = {**self._pinned, **dict(zip(theirs, self._inner.fetch_all(theirs, saltenv)))}
        return [found[path] for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return contents of received chunks or of *inner*'s files, in the order of *paths*."""
        theirs = [path for path in paths if path not in self._pinned]
        found = dict(zip(theirs, self._inner.contents(theirs, saltenv)))
        own = self._pinned
        return [own[path].read_bytes() if path in own else found[path] for path in paths]

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return *inner*'s answer; received chunks are never distant."""
        return None if path in self._pinned else self._inner.distant(path, saltenv)

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of the received chunk, or that of *inner*."""
        local = self._pinned.get(path)
        if local is None:
            return self._inner.entry(path, saltenv)
        data = local.read_bytes()
        return FileEntry(path, hex_of(data), len(data), 0o600)

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return *inner*'s entries and the received chunks."""
        mine = [self.entry(path) for path in self._pinned if path.startswith(prefix)]
        found = {entry.path: entry for entry in self._inner.entries(saltenv, prefix)}
        found.update({entry.path: entry for entry in mine if entry})
        return [found[path] for path in sorted(found)]

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return *inner*'s folders."""
        return self._inner.folders(saltenv, prefix)

    def environments(self) -> List[str]:
        """Return *inner*'s environments, and base."""
        return sorted({"base", *self._inner.environments()})


def _write_holder(handle: int, chain_id: int) -> None:
    """Write which chain the holder of the lock may run; without space nobody learns it."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        if chain_id:
            os.pwrite(handle, str(chain_id).encode("ascii"), 0)
