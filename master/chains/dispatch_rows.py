"""Queries of a dispatch: facts about minions, and inserts of their runs and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from catena.master.chains import rows
from catena.master.store.chain_tables import CHAIN_MINIONS, CHUNKS
from catena.master.store.fast.many_rows import ManyRows
from catena.master.store.fast.serials import insert_many
from catena.master.store.lists import padded
from catena.master.store.metadata import MessagePackType, Ready
from catena.master.store.tables import KEYS, MINIONS
from catena.transport.messages.session import TRANSACTIONAL_CHUNKS

#: The grain `transactional: true` in its stored (MessagePack) form.
_TRANSACTIONAL = Ready.of({"transactional": True}).packed[1:]
_INSERT_RUNS = ManyRows(
    sa.insert(CHAIN_MINIONS),
    ("run", "minion", "machine_id", "jid", "manifest", "boot_id", "state", "over_ssh"),
)


@dataclass(frozen=True)
class MinionFacts:
    """Facts about an accepted minion, or about a host that the master reaches over SSH."""

    #: "": an SSH host that was never visited.
    machine_id: str
    boot_id: str
    #: Whether the master reaches the host over SSH.
    agentless: bool = False
    #: Whether the minion is a transactional system: a read-only root, changed by snapshots.
    transactional: bool = False


def minion_facts(conn: sa.Connection, minions: Sequence[str]) -> dict[str, MinionFacts]:
    """Return minion id -> facts, for those of *minions* whose key is accepted."""
    found = {}
    for start in range(0, len(minions), rows.SLICE):
        some = minions[start : start + rows.SLICE]
        query = (
            sa.select(
                KEYS.c.minion,
                KEYS.c.machine_id.label("of_key"),
                MINIONS.c.machine_id,
                MINIONS.c.boot_id,
                MINIONS.c.wire,
                sa.type_coerce(MINIONS.c.grains, sa.LargeBinary).label("grains"),
            )
            .outerjoin(MINIONS, MINIONS.c.id == KEYS.c.minion)
            .where(KEYS.c.state == "accepted", KEYS.c.minion.in_(padded(some)))
        )
        for row in conn.execute(query):
            found[row.minion] = MinionFacts(
                row.machine_id or row.of_key,
                row.boot_id or "",
                # An older agent gets chunks with a state that reboots.
                transactional=(row.wire or 0) >= TRANSACTIONAL_CHUNKS
                and _is_transactional(conn, row.grains),
            )
    return found


def _is_transactional(conn: sa.Connection, packed: bytes | None) -> bool:
    """Return whether stored grains say that a minion's root is changed by snapshots."""
    # Most grains don't contain the packed pair, and unpacking them would be slow.
    if not packed or _TRANSACTIONAL not in packed:
        return False
    grains: dict[str, object] = MessagePackType().process_result_value(packed, conn.dialect)
    return grains.get("transactional") is True


def insert_runs(conn: sa.Connection, runs: Sequence[tuple[Any, ...]]) -> None:
    """Store runs on minions, each as the columns that `_INSERT_RUNS` lists."""
    _INSERT_RUNS.run(conn, runs)


def insert_chunks(conn: sa.Connection, chunks: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Store chunk files; return their ids in the same order."""
    return insert_many(conn, CHUNKS.c.id, chunks)
