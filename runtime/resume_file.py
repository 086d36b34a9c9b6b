"""The resume file: which chunk of which chain goes on after the next boot (design §2).

`<conf_dir>/minion.d/_mgractionchains.conf` is flat YAML, one `key: value` a line, written here by
hand and read by a strict parser, so that neither a YAML library nor its tricks are needed. Its
last line is an HMAC-SHA256 over all lines before it, by a key that only root reads: a file that
somebody else put there is refused. `resume` renames it to `….running` before the chunk runs and
unlinks that after the chunk's end is in the journal; it is never deleted first.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from catena.core import frozen
from catena.core.chain_calls import CLEAN
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
from catena.core.removal import remove_entry
from catena.core.run_ref import RunRef
from catena.core.suggest import unknown
from catena.runtime.damage import Damage, report

NAME = "_mgractionchains.conf"
SIZE_LIMIT = 64 * 1024
KEY_BYTES = 32
#: Stands for a minion's id in a command where it is not known.
SOME_MINION = "MINION"
_LINE = re.compile(r"([a-z0-9_]+): (.*)")
_NUMBER = re.compile(r"[0-9]{1,18}\Z")


def clear_command(minion: str) -> str:
    """Return the command that gives up the chains which wait on *minion*."""
    return f"catena run {minion} {CLEAN}"


class MalformedResumeFileError(CatenaError):
    """The resume file is not one that this agent wrote."""


@dataclass(frozen=True)
class ResumePoint:
    """What a resume file says."""

    #: SLS name of the next chunk, actionchains.actionchain_<C>_<MACHINE>_<N>.
    next_chunk: str
    actionchain_id: int
    #: Its number, counted from 1.
    chunk: int
    #: First action of the next chunk; None when the chunk has none.
    next_action_id: Optional[int]
    #: When the boot began in which this was written: ISO 8601, for people.
    persist_boot_time: str
    #: The boot in which this was written; another one is the proof of a reboot.
    boot_id: str
    #: The agent process in which this was written; another one proves an agent upgrade.
    session: str
    #: "reboot" or "agent_upgrade": which of the two proofs is asked for.
    boundary: str
    #: SHA-256 of the next chunk's file.
    sha256: str
    epoch: int = 0
    #: Handed back for SSH, as given (joined by commas).
    ssh_extra_filerefs: str = ""

    @property
    def run(self) -> RunRef:
        """Return the run that it belongs to."""
        return RunRef(self.actionchain_id, self.epoch)


_FIELDS = {f.name: f for f in frozen.fields(ResumePoint)}
_NUMBERS = frozenset({"actionchain_id", "chunk", "epoch", "next_action_id"})


class ResumeFile:
    """The resume file of one agent, waiting (`path`) or taken (`running`).

    Args:
        conf_dir: the agent's configuration folder.
        pki_dir: folder of keys; the HMAC's key is made there when missing, mode 0600.
        minion: the agent's id, for the commands that errors name.
        cache_dir: the agent's private folder, where damage is reported; None: nowhere.
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
        self.running = self.path.with_name(NAME + ".running")
        self._key_path = pki_dir / "resume.key"

    def write(self, point: ResumePoint) -> None:
        """Replace the waiting file, durably.

        Raises:
            OSError: nothing was replaced.
            LimitError: it would be larger than 64 KiB.
        """
        data = serialise(point, self._key())
        if len(data) > SIZE_LIMIT:
            raise LimitError(f"resume file of {len(data)} bytes; {SIZE_LIMIT} are allowed")
        # The key may come from a process that was killed before it synced the folder; without its
        # key the resume file is refused after a power failure.
        sync_folder(self._key_path.parent)
        durable_folder(self.path.parent, 0o755)
        write_durable(self.path, data)

    def sweep(self) -> None:
        """Remove what a process that was killed amid a write left; the chains' lock must be held.

        Raises:
            OSError: it can't be removed.
        """
        for path in left_beside(self.path):
            path.unlink(missing_ok=True)

    def waiting(self) -> Optional[ResumePoint]:
        """Return what the waiting file says, or None without one.

        Raises:
            MalformedResumeFileError: it is not a file of this agent; the message names the cure.
        """
        return self._read(self.path)

    def taken(self) -> Optional[ResumePoint]:
        """Return what the file of the running chunk says, or None without one."""
        return self._read(self.running)

    def take(self) -> None:
        """Rename the waiting file to the running one, durably."""
        rename_durable(self.path, self.running)

    def drop_taken(self) -> None:
        """Remove the file of the running chunk, durably."""
        if self.running.exists():
            unlink_durable(self.running)

    def clear(self) -> bool:
        """Remove whatever stands in both places; return whether anything did.

        Raises:
            CannotRemoveError: the message says why, and what makes it possible.
        """
        found = [path for path in (self.path, self.running) if os.path.lexists(path)]
        for path in found:
            remove_entry(path)
        return bool(found)

    def clear_run(self, run: RunRef) -> bool:
        """Remove what names *run* or an older run of its chain; return whether anything did.

        What names no run (a damaged file, a folder) is removed too: no chain can go on with it. A
        file that names another chain stays, even one without this agent's signature: people decide
        about it, because here nobody knows that chain.

        Raises:
            CannotRemoveError: the message says why, and what makes it possible.
        """
        removed = False
        for path in (self.path, self.running):
            if os.path.lexists(path) and self._is_of(path, run):
                remove_entry(path)
                removed = True
        return removed

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
        except (LimitError, OSError) as error:
            raise self._malformed(path, str(error)) from error
        try:
            return parse(data, self._key())
        except MalformedResumeFileError as error:
            lost = "which chunk goes on next; the chain's own folder has what has run"
            self._report(Damage(str(path), str(error), "", lost))
            raise self._malformed(path, str(error)) from None

    def _malformed(self, path: Path, why: str) -> MalformedResumeFileError:
        why = why.removeprefix(f"{path}: ")
        return MalformedResumeFileError(
            f"malformed resume file {path}: {why}; to give that chain up: {self.clear_command}"
        )

    def _key(self) -> bytes:
        try:
            key: Optional[bytes] = read_limited(self._key_path, SIZE_LIMIT)
        except FileNotFoundError:
            key = None
        # A key of one and the same byte is no key: zeros are what damage leaves.
        if key is not None and len(key) == KEY_BYTES and len(set(key)) > 1:
            return key
        if key is not None and self._cache_dir is None:
            # Only looked at: nothing is changed.
            raise MalformedResumeFileError(f"{self._key_path} holds no key")
        if key is not None:
            what = f"it holds no key of {KEY_BYTES} bytes"
            lost = "the proof that a waiting resume file is this agent's; a new key is made"
            self._report(Damage(str(self._key_path), what, "", lost), key)
        key = os.urandom(KEY_BYTES)
        durable_folder(self._key_path.parent)
        write_durable(self._key_path, key)
        return key

    def _report(self, damage: Damage, data: Optional[bytes] = None) -> None:
        if self._cache_dir is not None:
            report(self._cache_dir, damage, data)


def _claimed(path: Path) -> Optional[Tuple[int, int]]:
    """Return chain and epoch that a file without a right signature names; None: it names none."""
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
    """Return what the bytes of a resume file say.

    Raises:
        MalformedResumeFileError: wrong HMAC, unknown, missing or repeated key, wrong type.
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
