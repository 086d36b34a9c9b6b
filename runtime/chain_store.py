"""What a host keeps of its chains: manifest, chunks, journal, results of chunks.

All of a chain lies in `<cache_dir>/chains/<id>/` and is there, hash-checked and durable, before
its first action. The folder comes into being by one rename, so a chain is received wholly or not
at all. One process at a time runs chains on a host: it holds the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core import failpoints
from catena.core.clock import Clock
from catena.core.context import Distant, FileClient, FileEntry
from catena.core.digest import hex_of
from catena.core.errors import CatenaError, InvalidStateError, TryLaterError
from catena.core.files import (
    durable_folder,
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
from catena.runtime.chain_record import CHAIN, ChainView, apply, fold
from catena.runtime.damage import Damage, report
from catena.runtime.journal import Journal, Record, drop_reserve, read_records
from catena.runtime.resume_file import SOME_MINION, clear_command
from catena.runtime.sealed_results import sealed_results, unsealed_results

log = logger(__name__)

#: What gives up a chain that can't be read.
CLEAR = clear_command(SOME_MINION)
MANIFEST_LIMIT = 64 * 1024 * 1024
RESULTS_LIMIT = 256 * 1024 * 1024
#: Ended chains whose folders are kept, newest first; older ones go when a chain is received.
KEEP_ENDED = 20


class FencedError(InvalidStateError):
    """The order is older than what this host has of the chain."""


class ChainDamagedError(CatenaError):
    """The files of a received chain are not what was written."""


class ChainChangedError(CatenaError):
    """Two different chains were sent under one id and epoch."""


class Chain:
    """One received chain.

    Args:
        folder: where it lies.
        boot_id: id of the running boot, for its records.
        session: id of the agent process, for its records.
        clock: the time, for its records.
        journal: its open journal; None to look only.
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
        self.view: ChainView = fold(records)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
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
        """Return the action that makes the boundary at the end of a chunk (its last), or None."""
        actions = self.chunk(number).actions
        return actions[-1] if actions else None

    def record(self, kind: str, use_reserve: bool = False, **fields: Any) -> None:
        """Write one record durably and move the view by it.

        Raises:
            OSError: it is not on disk; nothing that it announces may happen.
        """
        if self._journal is None:
            raise InvalidStateError(f"chain {self.manifest.chain_id} is open for reading only")
        record: Record = {"kind": kind, **fields, **self._stamp, "epoch": self.manifest.epoch}
        if self._clock:
            record["at"] = self._clock.now().timestamp()
        # The view moves first: a record that can't follow must not reach the disk.
        try:
            apply(self.view, record)
            self._journal.append(record, use_reserve)
        except BaseException:
            self.view = fold(self._journal.records)
            raise
        if self.ended:
            self._journal.release_reserve()

    def files(self) -> Dict[str, Path]:
        """Return the chunk files by the paths under which an SLS name finds them."""
        found = {}
        for chunk in self.manifest.chunks:
            stem = chunk.sls.partition(".")[2]
            local = self.folder / f"{stem}.sls"
            for name in (stem, stem.replace(".", "/")):
                found[f"{chain_manifest.FOLDER}/{name}.sls"] = local
        return found

    def check_chunk(self, number: int) -> None:
        """Refuse to go on with a chunk file that is not what was received.

        Raises:
            CommandExecutionError: it has been changed on this host's disk.
        """
        chunk = self.chunk(number)
        path = self.folder / f"{chunk.sls.partition('.')[2]}.sls"
        data = read_limited(path, chain_manifest.CHUNK_SIZE_LIMIT)
        try:
            chain_manifest.check_bytes(data, chunk, str(path))
        except CatenaError as error:
            self._report(path, error, "this chunk: the chain does not go on", data)
            raise

    def save_results(self, number: int, results: Dict[str, Any]) -> None:
        """Keep what a chunk came to, durably; before its `chunk_end` is recorded."""
        data = sealed_results(results)
        try:
            write_durable(self.folder / f"results_{number}.json", data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or self._journal is None:
                raise
            self._journal.release_reserve()
            write_durable(self.folder / f"results_{number}.json", data)

    def release_reserve(self) -> None:
        """Give back the room that is kept for the ends of actions, of which one needs it now."""
        drop_reserve(self.folder / "journal")

    def results(self, number: int) -> Dict[str, Any]:
        """Return what an ended chunk came to."""
        path = self.folder / f"results_{number}.json"
        data = read_limited(path, RESULTS_LIMIT)
        try:
            return unsealed_results(path, data)
        except CatenaError as error:
            self._report(path, error, "what the states of this chunk came to", data)
            raise

    def _report(self, path: Path, error: Exception, lost: str, data: bytes) -> None:
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
    def lock(self, wait: bool = True) -> Iterator[None]:
        """Be the only process of this host that runs a chain.

        Args:
            wait: for another process to end; else give up at once.

        Raises:
            TryLaterError: not *wait*, and another process holds it.
        """
        private_folder(durable_folder(self.folder))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.folder / ".lock", flags, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise TryLaterError("a chain is running on this host") from None
            yield
        finally:
            os.close(handle)

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
        """Give a received chain for writing, or None; the lock must be held."""
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
                    # A newer run of the chain is being put in its place.
                    continue
                # A host must come up with it. A job of that very chain fails and says why.
                log.error("chain %s can't be read: %s", folder, error)
                report(self.folder.parent, _damage(folder, error))
        return found

    def set_aside_damaged(self, run: Optional[RunRef]) -> bool:
        """Move folders of chains that can't be read out of the way; return whether there was one.

        Args:
            run: only of this run or an older one of its chain; None: of any chain. They are kept
                as `.old-…`.
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
        """Remove what a cut left of chains that were being received; the lock must be held."""
        for staging in self.folder.glob(".new-*"):
            shutil.rmtree(staging, ignore_errors=True)

    def receive(self, manifest: ChainManifest, files: FileClient) -> None:
        """Fetch all chunks of a chain and keep them durably; a chain that is here stays as it is.

        Args:
            manifest: checked (`chain_manifest.check`).
            files: where the chunks come from.

        Raises:
            FencedError: this host has the chain under a higher epoch.
            ChainChangedError: another chain is under way here under the same id and epoch.
            CommandExecutionError: a chunk is missing or is not what the manifest says.
            OSError: it could not be kept; nothing was received.
        """
        known = self.look(manifest.chain_id)
        if known and not self._replaces(manifest, known):
            # Whoever received it may have been killed before its name was durable.
            sync_folder(self.folder)
            return
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
        """Return whether an order stands in for what is here, rather than repeating it."""
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
                f"chain {manifest.chain_id} of epoch {manifest.epoch} was sent a second time "
                "with other chunks"
            )
        # A master that was set up anew counts its chains from the start again.
        return True

    def _forget_old(self) -> None:
        ended = [chain.folder for chain in self.chains() if chain.ended]
        old = sorted(self.folder.glob(".old-*"), key=lambda f: f.stat().st_mtime, reverse=True)
        for folder in [*ended[KEEP_ENDED:], *old[KEEP_ENDED:]]:
            shutil.rmtree(folder, ignore_errors=True)
        sync_folder(self.folder)


def _read_pair(folder: Path, journal: Optional[Journal]) -> Tuple[bytes, Sequence[Record]]:
    """Return the manifest and the journal's records of one and the same run.

    Without the chains' lock, a newer run may replace the folder between the two reads.
    """
    while True:
        number = folder.stat().st_ino
        body = read_limited(folder / "manifest.json", MANIFEST_LIMIT)
        records = journal.records if journal else read_records(folder / "journal")
        # The replaced folder is kept beside it, so that its number is not used again.
        if folder.stat().st_ino == number:
            return body, records


def _epoch_of(folder: Path) -> int:
    """Return the epoch of a chain whose journal can't be read; 0 where nothing says it."""
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
    """Refuse a chain of which it is not known what has run, or that is not what was received."""
    if not records:
        raise ChainDamagedError(f"{folder / 'journal'}: no record; to give that chain up: {CLEAR}")
    told = records[0].get("manifest")
    if told and told != hex_of(body):
        raise ChainDamagedError(
            f"{folder / 'manifest.json'}: not what was received; to give that chain up: {CLEAR}"
        )


def _damage(folder: Path, error: Exception) -> Damage:
    lost = "how far the chain is: nothing of it is run again until somebody clears it"
    return Damage(str(folder), str(error), "its files, in their place", lost)


def boundary_seconds(cache_dir: Path, chain_id: int) -> int:
    """Return how long its master waits for the boot of a received chain, as its manifest says."""
    try:
        path = cache_dir / "chains" / str(chain_id) / "manifest.json"
        told = _manifest_of(path, read_limited(path, MANIFEST_LIMIT)).boundary_seconds
    except (CatenaError, OSError, ValueError):
        # None is here, or it can't be read: a job of that very chain says so.
        told = None
    return BOUNDARY_SECONDS if told is None else told


class PinnedFiles:
    """A file client whose chunk files are the ones that were received; all else is *inner*'s."""

    def __init__(self, inner: FileClient, pinned: Dict[str, Path]) -> None:
        self._inner = inner
        self._pinned = pinned

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return the received chunk, or what *inner* has."""
        return self._pinned.get(path) or self._inner.fetch(path, saltenv)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return received chunks, or what *inner* has, in the order asked."""
        theirs = [path for path in paths if path not in self._pinned]
        found = {**self._pinned, **dict(zip(theirs, self._inner.fetch_all(theirs, saltenv)))}
        return [found[path] for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return contents of received chunks, or what *inner* has, in the order asked."""
        theirs = [path for path in paths if path not in self._pinned]
        found = dict(zip(theirs, self._inner.contents(theirs, saltenv)))
        own = self._pinned
        return [own[path].read_bytes() if path in own else found[path] for path in paths]

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return what *inner* has not here; the received chunks are."""
        return None if path in self._pinned else self._inner.distant(path, saltenv)

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of the received chunk, or what *inner* has."""
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
