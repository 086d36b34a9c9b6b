"""The chunks and actions of a chain: a manifest checked, or derived from the chunk files.

A master sends the manifest with the job. Without one (a chain rendered by another system, a call
by hand), it is derived from the chunk files. Their form is fixed, so a few patterns suffice and no
YAML library is needed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from catena.core.context import FileClient
from catena.core.digest import hex_of
from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.frozen import dataclass, field
from catena.core.job import ActionKind, ActionManifest, Boundary, ChainManifest, ChunkManifest

#: Limits of a master's manifest, far above any real chain.
CHUNKS_LIMIT = 1000
ACTIONS_LIMIT = 10_000
CHUNK_SIZE_LIMIT = 16 * 1024 * 1024
FOLDER = "actionchains"

_FILE = re.compile(
    r"actionchains/actionchain_([0-9]{1,18})_([A-Za-z0-9._-]{1,64})_([0-9]{1,6})\.sls"
)
_STATE = re.compile(r"^(mgr_actionchain_([0-9]+)_action_([0-9]+)_chunk_([0-9]+)):\s*$")
_OTHER_STATE = re.compile(r"^([A-Za-z0-9_]+):\s*$")
_FACT = re.compile(r"^\s*-?\s+(name|mods):\s*(\S.*?)?\s*$")
#: An item of the list under `mods:`, indented at least as much as the key.
_ITEM = re.compile(r"^\s{4,}-\s+([^\s:]+)\s*$")

#: A reboot without a state, on transactional systems: an argument of the chunk's last state.
_SCHEDULED_REBOOT = re.compile(
    r"^schedule_next_chunk:\n(?:    .*\n)*?    -\s+current_action_id: ([0-9]{1,18})\n"
    r"    -\s+reboot_required: true$",
    re.MULTILINE,
)

#: Functions and SLS whose repetition could have an effect twice.
_ONCE_FUNCTIONS = re.compile(r"cmd\.")
_ONCE_SLS = frozenset({"remotecommands"})


def sls_name(chain_id: int, machine_id: str, number: int) -> str:
    """Return the SLS name of a chunk."""
    return f"{FOLDER}.actionchain_{chain_id}_{machine_id}_{number}"


def file_name(chain_id: int, machine_id: str, number: int) -> str:
    """Return the file name of a chunk, without its folder."""
    return f"actionchain_{chain_id}_{machine_id}_{number}.sls"


def check(manifest: ChainManifest, chain_id: int, machine_id: str) -> None:
    """Refuse a manifest of another chain or host, or with invalid names, numbers or boundaries.

    Raises:
        UsageError: the message says what is wrong.
        LimitError: it has too many chunks or actions, or too large ones.
    """
    if manifest.chain_id != chain_id:
        raise UsageError(f"the manifest is of chain {manifest.chain_id}, not {chain_id}")
    if manifest.machine_id != machine_id:
        raise UsageError(
            f"chain {chain_id} was rendered for machine {manifest.machine_id[:80]!r}, "
            f"this is {machine_id!r}"
        )
    if not manifest.chunks:
        raise UsageError(f"chain {chain_id} has no chunks for this machine")
    actions = sum(len(chunk.actions) for chunk in manifest.chunks)
    if len(manifest.chunks) > CHUNKS_LIMIT or actions > ACTIONS_LIMIT:
        raise LimitError(f"chain {chain_id}: {len(manifest.chunks)} chunks, {actions} actions")
    for position, chunk in enumerate(manifest.chunks, 1):
        if chunk.number != position or chunk.sls != sls_name(chain_id, machine_id, position):
            raise UsageError(
                f"chain {chain_id}: chunk {position} is named {chunk.sls[:120]!r}, "
                f"number {chunk.number}"
            )
        if not 0 <= chunk.size <= CHUNK_SIZE_LIMIT:
            raise LimitError(f"chain {chain_id}: chunk {position} of {chunk.size} bytes")
        _check_boundary(chain_id, chunk, position == len(manifest.chunks))


def _check_boundary(chain_id: int, chunk: ChunkManifest, is_last: bool) -> None:
    """Refuse a chunk that ends a chain with chunks left, or waits with no chunk to follow.

    Raises:
        UsageError: the message names the chunk.
    """
    has_boundary = chunk.boundary is not Boundary.none
    if has_boundary and is_last:
        raise UsageError(
            f"chain {chain_id}: the last chunk, {chunk.number}, ends with the boundary "
            f"{chunk.boundary.value!r}; no chunk follows it"
        )
    if not has_boundary and not is_last:
        raise UsageError(
            f"chain {chain_id}: chunk {chunk.number} ends without a boundary, but chunk "
            f"{chunk.number + 1} follows it"
        )


def fetch_chunk(files: FileClient, chunk: ChunkManifest) -> bytes:
    """Return the bytes of a chunk from the file server after checking their hash.

    Raises:
        CommandExecutionError: it is missing, or differs from the manifest.
    """
    path = f"{FOLDER}/{chunk.sls.partition('.')[2]}.sls"
    found = files.fetch(path)
    if found is None:
        raise CommandExecutionError(f"salt://{path} is not on the file server")
    data = found.read_bytes()
    check_bytes(data, chunk, f"salt://{path}")
    return data


def check_bytes(data: bytes, chunk: ChunkManifest, where: str) -> None:
    """Check that *data* is the content of *chunk*.

    Raises:
        CommandExecutionError: hash or size differ.
    """
    found = hex_of(data)
    if found != chunk.sha256 or len(data) != chunk.size:
        raise CommandExecutionError(
            f"{where} is not chunk {chunk.number} as the chain has it: "
            f"SHA-256 {found}, expected {chunk.sha256}"
        )


def from_files(files: FileClient, chain_id: int, machine_id: str) -> Optional[ChainManifest]:
    """Return the manifest derived from the chunk files of a chain, or None if there are none.

    Raises:
        CommandExecutionError: a chunk is missing between others.
    """
    found: Dict[int, str] = {}
    for entry in files.entries(prefix=FOLDER + "/"):
        match = _FILE.fullmatch(entry.path)
        if match and int(match[1]) == chain_id and match[2] == machine_id:
            found[int(match[3])] = entry.path
    if not found:
        return None
    chunks = []
    for number in range(1, max(found) + 1):
        local = files.fetch(found[number]) if number in found else None
        if local is None:
            raise CommandExecutionError(f"chain {chain_id}: chunk {number} is missing")
        chunks.append(_chunk_of(local, chain_id, machine_id, number, number < max(found)))
    return ChainManifest(chain_id, machine_id, 0, tuple(chunks))


def _chunk_of(
    path: Path, chain_id: int, machine_id: str, number: int, has_next: bool
) -> ChunkManifest:
    data = path.read_bytes()
    text = data.decode("utf-8", "replace")
    actions = actions_of(text)
    reboot = _SCHEDULED_REBOOT.search(text)
    if reboot:
        ident = f"mgr_actionchain_{chain_id}_action_{reboot[1]}_chunk_{number}"
        actions += (ActionManifest(int(reboot[1]), ident, ActionKind.reboot),)
    boundary = Boundary.none
    if has_next:
        reboots = any(action.kind is ActionKind.reboot for action in actions)
        boundary = Boundary.reboot if reboots else Boundary.agent_upgrade
    return ChunkManifest(
        number,
        sls_name(chain_id, machine_id, number),
        hex_of(data),
        len(data),
        boundary,
        actions,
    )


@dataclass
class _Facts:
    """Facts about one state's function, collected line by line."""

    name: str = ""
    mods: List[str] = field(default_factory=list)
    #: Whether the last line belongs to the list under `mods:`.
    listing: bool = False

    def note(self, line: str) -> None:
        """Process *line*; only the first name and the first mods belong to the state itself."""
        fact = _FACT.match(line)
        item = _ITEM.match(line)
        if self.listing and item:
            self.mods.append(item[1].strip("'\""))
            return
        self.listing = False
        if fact and fact[1] == "name":
            self.name = self.name or (fact[2] or "").strip("'\"")
        elif fact and not self.mods:
            self.mods = [fact[2].strip("'\"")] if fact[2] else []
            self.listing = not fact[2]

    def kind(self) -> ActionKind:
        """Return how the function recovers from a crash."""
        if self.name == "system.reboot":
            return ActionKind.reboot
        if _ONCE_FUNCTIONS.match(self.name) or not _ONCE_SLS.isdisjoint(self.mods):
            return ActionKind.once
        return ActionKind.idempotent


def actions_of(text: str) -> Tuple[ActionManifest, ...]:
    """Return the actions in a chunk's text, with the kind derived from their function."""
    actions: List[ActionManifest] = []
    state: Optional[Tuple[str, int]] = None
    facts = _Facts()
    for line in [*text.splitlines(), "end_of_chunk:"]:
        if not _OTHER_STATE.match(line):
            facts.note(line)
            continue
        if state:
            actions.append(ActionManifest(state[1], state[0], facts.kind()))
        match = _STATE.match(line)
        state = (match[1], int(match[3])) if match else None
        facts = _Facts()
    return tuple(actions)
