"""The resume file: which chunk of which chain runs after the next boot (design §2).

`<conf_dir>/minion.d/_mgractionchains.conf` is flat YAML with one `key: value` per line. This
module writes it and reads it with a strict parser, without a YAML library. The last line is an
HMAC-SHA256 over all lines before it. Only root can read the key, so a file that another user put
there is refused. `resume` renames the file to `….running` before the chunk runs. It removes the
renamed file only after the end of the chunk is in the journal.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core import frozen
from catena.core.chain_calls import CLEAN, RESUME_FILE, TAKEN, by_hand
from catena.core.digest import hmac_sha256, same_digest
from catena.core.errors import CatenaError, LimitError
from catena.core.files import (
    durable_folder,
    left_beside,
    read_limited,
    rename_durable,
    sync_folder,
    unlink_durable,
    write_durable,
)
from catena.core.frozen import dataclass
from catena.core.job import Boundary
from catena.core.removal import remove_entry
from catena.core.run_ref import RunRef
from catena.core.suggest import unknown
from catena.runtime.damage import Damage, report, set_aside

NAME = RESUME_FILE
SIZE_LIMIT = 64 * 1024
KEY_BYTES = 32
_FILE_LOST = "which chunk goes on next; the chain's own folder has what has run"
_KEY_LOST = "the proof that a waiting resume file is this agent's; a new key is made"
#: Placeholder for the minion's id in a command when the id is unknown.
SOME_MINION = "MINION"
_LINE = re.compile(r"([a-z0-9_]+): (.*)")
_NUMBER = re.compile(r"[0-9]{1,18}\Z")


def clear_command(minion: str) -> str:
    """Return the command that gives up the chains waiting on *minion*."""
    return by_hand(CLEAN, minion)


class MalformedResumeFileError(CatenaError):
    """The resume file was not written by this agent, or it is damaged."""


@dataclass(frozen=True)
class ResumePoint:
    """The content of a resume file."""

    #: SLS name of the next chunk, actionchains.actionchain_<C>_<MACHINE>_<N>.
    next_chunk: str
    actionchain_id: int
    #: Number of the next chunk, counted from 1.
    chunk: int
    #: First action of the next chunk; None when the chunk has none.
    next_action_id: Optional[int]
    #: Start time of the boot during which the file was written, ISO 8601, for people.
    persist_boot_time: str
    #: Id of the boot during which the file was written; a different id proves a reboot.
    boot_id: str
    #: Id of the agent process that wrote the file; a different id proves an agent upgrade.
    session: str
    #: "reboot" or "agent_upgrade": which of the two proofs the resume requires.
    boundary: str
    #: SHA-256 of the next chunk's file.
    sha256: str
    epoch: int = 0
    #: Files that the next chunk needs over SSH, joined by commas; returned unchanged.
    ssh_extra_filerefs: str = ""

    @property
    def run(self) -> RunRef:
        """Return the run that the next chunk belongs to."""
        return RunRef(self.actionchain_id, self.epoch)


_FIELDS = {f.name: f for f in frozen.fields(ResumePoint)}
_NUMBERS = frozenset({"actionchain_id", "chunk", "epoch", "next_action_id"})
#: What a chain can wait for.
_BOUNDARIES = tuple(kind.value for kind in Boundary if kind is not Boundary.none)


class ResumeFile:
    """The resume file of one agent: waiting (`path`), or taken by the running chunk (`running`).

    Args:
        conf_dir: the agent's configuration folder.
        pki_dir: folder of keys; a missing HMAC key is created there with mode 0600.
        minion: the agent's id, for the commands in error messages.
        cache_dir: the agent's private folder, where damage is reported; None: read-only use,
            damage is not reported and a damaged key is not replaced.
    """

    def __init__(
        self,
        conf_dir: Path,
        pki_dir: Path,
        minion: str = SOME_MINION,
        cache_dir: Optional[Path] = None,
    ) -> None:
        self.clear_command = clear_command(minion)
        self._cache_dir = cache_dir
        self.path = conf_dir / "minion.d" / NAME
        self.running = self.path.with_name(NAME + TAKEN)
        self._key_path = pki_dir / "resume.key"

    def write(self, point: ResumePoint) -> None:
        """Replace the waiting file, durably.

        Raises:
            OSError: the file could not be written; the old one is unchanged.
            LimitError: the file would be larger than 64 KiB.
        """
        data = serialise(point, self._key())
        if len(data) > SIZE_LIMIT:
            raise LimitError(f"resume file of {len(data)} bytes; {SIZE_LIMIT} are allowed")
        # A process that created the key may have been killed before it synced the folder. If a
        # power failure loses the key, the resume file is refused after the next boot.
        sync_folder(self._key_path.parent)
        durable_folder(self.path.parent, 0o755)
        write_durable(self.path, data)

    def sweep(self) -> None:
        """Remove temporary files of an interrupted write; the caller holds the chains' lock.

        Raises:
            OSError: a temporary file can't be removed.
        """
        for path in left_beside(self.path):
            path.unlink(missing_ok=True)

    def waiting(self) -> Optional[ResumePoint]:
        """Return the content of the waiting file, or None if there is no file.

        Raises:
            MalformedResumeFileError: this agent did not write the file, or it is damaged; the
                message names the command that gives up the chain.
        """
        return self._read(self.path)

    def taken(self) -> Optional[ResumePoint]:
        """Return the content of the running chunk's file, or None if there is no file.

        Raises:
            MalformedResumeFileError: as for `waiting`.
        """
        return self._read(self.running)

    def take(self) -> None:
        """Rename the waiting file to that of the running chunk, durably."""
        rename_durable(self.path, self.running)

    def drop_taken(self) -> None:
        """Remove the file of the running chunk, durably."""
        if self.running.exists():
            unlink_durable(self.running)

    def clear(self) -> bool:
        """Remove both files, of whatever type they are; return whether any existed.

        Raises:
            CannotRemoveError: the message gives the reason and the remedy.
        """
        found = [path for path in (self.path, self.running) if os.path.lexists(path)]
        for path in found:
            remove_entry(path)
        return bool(found)

    def clear_run(self, run: RunRef) -> bool:
        """Remove files that name *run* or an older run of its chain; return whether any did.

        A damaged file or a folder, which names no run, is removed too: no chain can continue with
        it. A file that names another chain stays, even without this agent's signature: an
        operator decides about it.

        Raises:
            CannotRemoveError: the message gives the reason and the remedy.
        """
        found = self._files_of(run)
        for path in found:
            remove_entry(path)
        return bool(found)

    def exists(self) -> bool:
        """Return whether anything has the name of either file."""
        return any(os.path.lexists(path) for path in (self.path, self.running))

    def is_of(self, run: RunRef) -> bool:
        """Return whether a file names *run* or an older run of its chain, or names no run."""
        return bool(self._files_of(run))

    def _files_of(self, run: RunRef) -> List[Path]:
        paths = (self.path, self.running)
        return [path for path in paths if os.path.lexists(path) and self._is_of(path, run)]

    def _is_of(self, path: Path, run: RunRef) -> bool:
        try:
            point = self._read(path)
        except MalformedResumeFileError:
            claimed = _claimed(path)
            return claimed is None or run.covers(*claimed)
        return point is None or run.covers(point.actionchain_id, point.epoch)

    def _read(self, path: Path) -> Optional[ResumePoint]:
        try:
            data = read_limited(path, SIZE_LIMIT)
        except FileNotFoundError:
            return None
        except LimitError as error:
            self._report(Damage(str(path), str(error).replace(f"{path}: ", ""), "", _FILE_LOST))
            raise self._malformed(path, str(error)) from error
        except OSError as error:
            raise self._malformed(path, str(error)) from error
        try:
            return parse(data, self._key())
        except MalformedResumeFileError as error:
            self._report(Damage(str(path), str(error), "", _FILE_LOST))
            raise self._malformed(path, str(error)) from None

    def _malformed(self, path: Path, why: str) -> MalformedResumeFileError:
        why = why.removeprefix(f"{path}: ")
        return MalformedResumeFileError(
            f"malformed resume file {path}: {why}; to give that chain up: {self.clear_command}"
        )

    def _key(self) -> bytes:
        key = self._read_key()
        # A damaged file often holds only zeros, so a key of one repeated byte is invalid.
        if key is not None and len(key) == KEY_BYTES and len(set(key)) > 1:
            return key
        if key is not None and self._cache_dir is None:
            # Read-only use: the damaged key is not replaced.
            raise MalformedResumeFileError(f"{self._key_path} holds no key")
        if key is not None:
            what = f"it holds no key of {KEY_BYTES} bytes"
            self._report(Damage(str(self._key_path), what, "", _KEY_LOST), key)
        key = os.urandom(KEY_BYTES)
        durable_folder(self._key_path.parent)
        write_durable(self._key_path, key)
        return key

    def _read_key(self) -> Optional[bytes]:
        """Return the content of the key's file; None if there is none."""
        try:
            return read_limited(self._key_path, SIZE_LIMIT)
        except FileNotFoundError:
            return None
        except LimitError as error:
            if self._cache_dir is None:
                raise MalformedResumeFileError(f"{error}; it holds no key") from None
        set_aside(self._cache_dir, self._key_path, _KEY_LOST)
        return None

    def _report(self, damage: Damage, data: Optional[bytes] = None) -> None:
        if self._cache_dir is not None:
            report(self._cache_dir, damage, data)


def _claimed(path: Path) -> Optional[Tuple[int, int]]:
    """Return (chain, epoch) from a file whose signature is wrong; None if it names no chain."""
    try:
        lines = read_limited(path, SIZE_LIMIT).decode("ascii", "replace").splitlines()
    except (LimitError, OSError):
        return None
    said = {found[1]: found[2] for found in map(_LINE.fullmatch, lines) if found}
    chain, epoch = (said.get(name, "") for name in ("actionchain_id", "epoch"))
    if not _NUMBER.match(chain):
        return None
    return int(chain), int(epoch) if _NUMBER.match(epoch) else 0


def serialise(point: ResumePoint, key: bytes) -> bytes:
    """Return the bytes of a resume file."""
    lines = []
    for name in _FIELDS:
        value = getattr(point, name)
        if value is None:
            continue
        text = str(value) if name in _NUMBERS else json.dumps(value)
        lines.append(f"{name}: {text}\n")
    body = "".join(lines).encode("ascii")
    return body + b'hmac: "%s"\n' % hmac_sha256(key, body).hex().encode("ascii")


def parse(data: bytes, key: bytes) -> ResumePoint:
    """Return the resume point in the bytes of a resume file.

    Raises:
        MalformedResumeFileError: the HMAC is wrong, a key is unknown, missing or repeated, a
            value has the wrong type, or this agent does not know the boundary (a newer one wrote
            the file).
    """
    body, mark, tail = data.rpartition(b"hmac: ")
    proof = hmac_sha256(key, body).hex().encode("ascii")
    if not mark or not same_digest(tail, b'"%s"\n' % proof):
        raise MalformedResumeFileError("it does not carry this agent's signature")
    values: Dict[str, Any] = {}
    for number, line in enumerate(body.decode("ascii", "replace").splitlines(), 1):
        found = _LINE.match(line)
        if not found or found[1] in values:
            raise MalformedResumeFileError(f"line {number} is not a new 'key: value'")
        if found[1] not in _FIELDS:
            raise MalformedResumeFileError(f"line {number}: {unknown('key', found[1], _FIELDS)}")
        values[found[1]] = _value(found[1], found[2], number)
    values.setdefault("next_action_id", None)
    missing = [n for n, f in _FIELDS.items() if n not in values and _is_required(f)]
    if missing:
        raise MalformedResumeFileError(f"key {missing[0]!r} is missing")
    if values["boundary"] not in _BOUNDARIES:
        raise MalformedResumeFileError(
            unknown("boundary", values["boundary"][:80], _BOUNDARIES, few=True)
        )
    return ResumePoint(**values)


def _is_required(field: frozen.Field[Any]) -> bool:
    return field.default is frozen.MISSING


def _value(name: str, text: str, number: int) -> Any:
    if name in _NUMBERS:
        if _NUMBER.match(text):
            return int(text)
        raise MalformedResumeFileError(f"line {number}: {name} must be a number")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise MalformedResumeFileError(f"line {number}: {name} must be text in double quotes")
    return value
