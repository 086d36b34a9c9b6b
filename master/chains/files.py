"""The files that chains put before minions, and who sees which.

Everything lies below one private folder. A minion sees its own chunk files, and the scripts and
wheels of its own actions, while a run of its is open; the file service asks `overlay` for them.
Uploads are kept once each, under their hash, however many actions name them.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
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

#: The SLS and scripts that every chain may use: served as the last root, so that the user's own
#: roots win.
SHIPPED = Path(__file__).parent / "sls"


#: An upload that no chain names yet is kept this long.
FRESH_SECONDS = 24 * 3600

_PREVIEWS = "previews"
_UPLOADS = "uploads"


class MissingUploadError(UsageError):
    """An action names a file that was not uploaded."""


@dataclass(frozen=True)
class Upload:
    """A file that an action needs, and where minions see it."""

    #: Path below the file roots.
    path: str
    sha256: str
    limit: int


class ChainFiles:
    """Chunk files, scripts, wheels and previews below *folder*.

    The map of who sees what is replaced, never changed, so that the file service may read it from
    any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)
        self._chunks = self._folder / FOLDER
        #: Writers in two threads would replace each other's temporary file.
        self._writing = threading.Lock()
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
        """Remove a chunk file; fine if it has gone."""
        (self._chunks / name).unlink(missing_ok=True)

    def expose(self, minion: str, names: Iterable[str], plans: Iterable[PlannedAction]) -> None:
        """Let *minion* see chunk files and its actions' uploads, beside what it sees already."""
        found = {f"{FOLDER}/{name}": self._chunks / name for name in names}
        for plan in plans:
            for upload in uploads(plan):
                found[upload.path] = self._upload(upload)
        self._seen[minion] = {**self._seen.get(minion, {}), **found}

    async def load(self, store: Any) -> None:
        """Find out from the store and the folder who sees what; for a start of the master."""
        self._seen = await store.read(self._from_store)
        self._previews = {}
        for path in sorted(self._folder.glob(f"{_PREVIEWS}/*/*.sls")):
            self._previews.setdefault(path.parent.name, {})[f"{FOLDER}/{path.name}"] = path

    def hide(self, minions: Iterable[str], conn: sa.Connection) -> dict[str, Mapping[str, Path]]:
        """Return anew what *minions* see, read in a transaction; pass it to `replace`."""
        return {minion: self._from_store(conn, minion).get(minion, {}) for minion in minions}

    def replace(self, seen: Mapping[str, Mapping[str, Path]]) -> None:
        """Take what `hide` returned."""
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
        """Keep an uploaded file under its hash, durably; nothing to do if it is kept already.

        Args:
            upload: what an action names.
            source: where the client's upload lies; None if there is none.

        Raises:
            MissingUploadError: it was not uploaded, or is not what its hash says.
            LimitError: it is too large.
        """
        target = self._upload(upload)
        if target.exists():
            if target.stat().st_size > upload.limit:
                raise LimitError(f"the upload is larger than {upload.limit} bytes")
            # Named again means wanted again: a sweep that began before must not take it.
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
        """Remove uploads that no chain uses and that are older than *before* (epoch seconds)."""
        for path in self._folder.glob(f"{_UPLOADS}/*"):
            if path.name not in used and path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _upload(self, upload: Upload) -> Path:
        return self._folder / _UPLOADS / upload.sha256

    def drop_chain(self, chain_id: int) -> None:
        """Remove what is left of a deleted chain's chunk files and previews."""
        for path in self._folder.glob(f"{FOLDER}/actionchain_{chain_id}_*.sls"):
            path.unlink(missing_ok=True)
        for path in self._folder.glob(f"{_PREVIEWS}/*/preview_{chain_id}.sls"):
            path.unlink(missing_ok=True)

    # -- previews ------------------------------------------------------------------------------

    def write_preview(
        self, minion: str, chain_id: int, text: str, plans: Iterable[PlannedAction]
    ) -> str:
        """Let *minion* see a preview of a chain; return its SLS name."""
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
        """Remove previews that were written before *before* (epoch seconds)."""
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
