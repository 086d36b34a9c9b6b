"""The files that chains provide to minions, and the minions that see them.

All files are below one private folder. While a minion has an open run, it sees its own chunk files
and the scripts and wheels of its own actions; the file service gets them from `overlay`. Each
upload is stored once, under its hash.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from catena.client.requests.chains import SCRIPT_BYTES, WHEEL_BYTES
from catena.core.errors import LimitError, UsageError
from catena.core.files import (
    private_folder,
    read_limited,
    sync_folder,
    write_durable,
    write_many_durable,
)
from catena.master.chains import rows
from catena.master.chains.actions import ActionPlan, ActionType
from catena.master.chains.lifecycle import ChunkState
from catena.master.chains.render import FOLDER, PlannedAction, script_path, wheel_path

#: SLS files and scripts that every chain may use, served as the last root: the user's roots win.
SHIPPED = Path(__file__).parent / "sls"

#: An upload that no chain uses is deleted at this age.
FRESH_SECONDS = 24 * 3600

#: Name of a chunk file; the group is the id of its chain.
_CHUNK_FILE = re.compile(
    r"actionchain_([1-9][0-9]{0,17})_[A-Za-z0-9._-]{1,64}_[1-9][0-9]{0,5}\.sls\Z"
)

_PREVIEWS = "previews"
_UPLOADS = "uploads"


class MissingUploadError(UsageError):
    """An action names a file that was not uploaded."""


@dataclass(frozen=True)
class Upload:
    """A file that an action needs, and its path for minions."""

    #: Path below the file roots.
    path: str
    sha256: str
    #: Maximum size in bytes.
    limit: int


class ChainFiles:
    """Chunk files, scripts, wheels and previews below *folder*.

    A minion's map of visible files is replaced, never changed, so that the file service may read
    it from any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._chunks = self._folder / FOLDER
        #: Prevents that writers in two threads replace each other's temporary file.
        self._writing = threading.Lock()
        #: Minion -> path below the roots -> local path.
        self._seen: dict[str, Mapping[str, Path]] = {}
        self._previews: dict[str, dict[str, Path]] = {}

    def overlay(self, minion: str) -> Mapping[str, Path]:
        """Return the files that only *minion* sees: path below the roots -> local path."""
        seen = self._seen.get(minion, {})
        previews = self._previews.get(minion)
        return {**previews, **seen} if previews else seen

    # -- chunks --------------------------------------------------------------------------------

    def write_chunks(self, texts: Mapping[str, str]) -> None:
        """Write chunk files (name -> text), durably."""
        with self._writing:
            folder = private_folder(self._chunks)
            write_many_durable(folder, {name: text.encode() for name, text in texts.items()})

    def remove_chunk(self, name: str) -> None:
        """Remove a chunk file if it exists."""
        (self._chunks / name).unlink(missing_ok=True)

    def expose(self, minion: str, names: Iterable[str], plans: Iterable[PlannedAction]) -> None:
        """Make chunk files and the uploads of *plans* visible to *minion*, in addition."""
        found = {f"{FOLDER}/{name}": self._chunks / name for name in names}
        for plan in plans:
            for upload in uploads(plan):
                found[upload.path] = self._upload(upload)
        self._seen[minion] = {**self._seen.get(minion, {}), **found}

    async def load(self, store: Any) -> None:
        """Read which minion sees which files, from the store and the folder; once at the start."""
        self._seen = await store.read(self._from_store)
        self._previews = {}
        for path in sorted(self._folder.glob(f"{_PREVIEWS}/*/*.sls")):
            self._previews.setdefault(path.parent.name, {})[f"{FOLDER}/{path.name}"] = path

    def hide(self, minions: Iterable[str], conn: sa.Connection) -> dict[str, Mapping[str, Path]]:
        """Return what *minions* see now, read in a transaction; pass the result to `replace`."""
        return {minion: self._from_store(conn, minion).get(minion, {}) for minion in minions}

    def replace(self, seen: Mapping[str, Mapping[str, Path]]) -> None:
        """Replace the visible files of minions by those that `hide` returned."""
        for minion, found in seen.items():
            if found:
                self._seen[minion] = found
            else:
                self._seen.pop(minion, None)

    def _from_store(self, conn: sa.Connection, minion: str = "") -> dict[str, Mapping[str, Path]]:
        found: defaultdict[str, dict[str, Path]] = defaultdict(dict)
        for run in rows.open_runs(conn, minion):
            for chunk in rows.chunks(conn, run):
                if chunk.state != ChunkState.removed.value:
                    path = f"{FOLDER}/{chunk.file}"
                    found[run.minion][path] = self._folder / path
            entries = rows.entries(conn, run.chain_id, run.minion)
            for plans in rows.planned(entries).values():
                for upload in (upload for plan in plans for upload in uploads(plan)):
                    found[run.minion][upload.path] = self._upload(upload)
        return dict(found)

    # -- uploads -------------------------------------------------------------------------------

    def keep(self, upload: Upload, source: Path | None) -> None:
        """Store an uploaded file durably under its hash, unless it is stored already.

        Args:
            upload: the file that an action needs.
            source: path of the client's upload; None if there is none.

        Raises:
            MissingUploadError: the file was not uploaded, or does not have this hash.
            LimitError: the file is too large.
        """
        target = self._upload(upload)
        if target.exists():
            if target.stat().st_size > upload.limit:
                raise LimitError(f"the upload is larger than {upload.limit} bytes")
            # Make the file new again, so that a cleanup that has already begun keeps it.
            os.utime(target)
            # A killed master may have renamed the file without syncing its folder.
            sync_folder(target.parent)
            return
        if source is None:
            raise MissingUploadError(f"the file with SHA-256 {upload.sha256} was not uploaded")
        data = read_limited(source, upload.limit)
        if sha256(data).hexdigest() != upload.sha256:
            raise MissingUploadError(f"the upload is not the file with SHA-256 {upload.sha256}")
        with self._writing:
            private_folder(target.parent)
            write_durable(target, data)

    def drop_uploads(self, used: Container[str], before: float) -> None:
        """Remove uploads not in *used* that are older than *before* (seconds since the epoch)."""
        for path in self._folder.glob(f"{_UPLOADS}/*"):
            if path.name not in used and path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _upload(self, upload: Upload) -> Path:
        return self._folder / _UPLOADS / upload.sha256

    def drop_chain(self, chain_id: int) -> None:
        """Remove the remaining chunk files and previews of a deleted chain."""
        for path in self._folder.glob(f"{FOLDER}/actionchain_{chain_id}_*.sls"):
            path.unlink(missing_ok=True)
        for path in self._folder.glob(f"{_PREVIEWS}/*/preview_{chain_id}.sls"):
            path.unlink(missing_ok=True)

    def chains_before(self, before: float) -> set[int]:
        """Return the ids of chains with a chunk file that was written before *before*.

        Args:
            before: seconds since the epoch.
        """
        return {chain_id for chain_id, _ in self._old_chunks(before)}

    def drop_chunks(self, chains: Container[int], before: float) -> None:
        """Remove the chunk files of *chains* that were written before *before*."""
        for chain_id, path in self._old_chunks(before):
            if chain_id in chains:
                path.unlink(missing_ok=True)

    def _old_chunks(self, before: float) -> Iterator[tuple[int, Path]]:
        """Yield each chunk file older than *before*, never a link, a folder or another file."""
        try:
            entries = list(os.scandir(self._chunks))
        except FileNotFoundError:
            return
        for entry in entries:
            found = _CHUNK_FILE.match(entry.name)
            if found is None or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    yield int(found[1]), Path(entry.path)

    # -- previews ------------------------------------------------------------------------------

    def write_preview(
        self, minion: str, chain_id: int, text: str, plans: Iterable[PlannedAction]
    ) -> str:
        """Write a preview of a chain, visible to *minion* only; return its SLS name."""
        name = f"preview_{chain_id}"
        with self._writing:
            folder = private_folder(private_folder(self._folder / _PREVIEWS) / minion)
            path = folder / f"{name}.sls"
            write_durable(path, text.encode())
        found = {f"{FOLDER}/{name}.sls": path}
        for plan in plans:
            for upload in uploads(plan):
                found[upload.path] = self._upload(upload)
        self._previews[minion] = {**self._previews.get(minion, {}), **found}
        return f"{FOLDER}.{name}"

    def sweep_previews(self, before: float) -> None:
        """Remove previews that were written before *before* (seconds since the epoch)."""
        for path in self._folder.glob(f"{_PREVIEWS}/*/*.sls"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)
                self._previews.pop(path.parent.name, None)


def uploads(action: PlannedAction) -> list[Upload]:
    """Return the uploaded files that an action needs."""
    data = action.plan.data
    if action.plan.type is ActionType.script:
        return [Upload(script_path(action.id), data.sha256, SCRIPT_BYTES)]
    if action.plan.type is ActionType.upgrade_agent and data.sha256:
        return [Upload(wheel_path(action.id, data.filename), data.sha256, WHEEL_BYTES)]
    return []


def hashes(plan: ActionPlan) -> list[str]:
    """Return the hashes of the uploads that an action names."""
    return [upload.sha256 for upload in uploads(PlannedAction(0, plan))]
