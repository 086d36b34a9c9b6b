"""Queries on drafts (chains that people still edit), their entries, and their first executions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.core.errors import NotFoundError
from catena.master.chains import rows
from catena.master.chains.lifecycle import ENDED_CHAINS
from catena.master.chains.model import ChainRecord
from catena.master.store.chain_tables import ACTIONS, CHAINS, ENTRIES
from catena.master.store.execution_tables import EXECUTIONS, RUNS
from catena.master.store.fast.serials import insert_many

_INSERT_ENTRY = sa.insert(ENTRIES)
#: Inserts an execution for each entry of a chain inside the database, because there may be many.
_INSERT_EVERY_EXECUTION = sa.insert(EXECUTIONS).from_select(
    [
        "run",
        "engine",
        "kind",
        "ref",
        "epoch",
        "minion",
        "position",
        "state",
        "status",
        "created",
    ],
    sa.select(
        sa.bindparam("b_run", type_=sa.BigInteger),
        sa.literal(rows.ENGINE, sa.String),
        ACTIONS.c.repeat,
        sa.cast(ENTRIES.c.action_id, sa.String(64)),
        sa.bindparam("b_epoch", type_=sa.Integer),
        ENTRIES.c.minion,
        ENTRIES.c.sort_order,
        sa.bindparam("b_state", type_=sa.String),
        sa.bindparam("b_state", type_=sa.String),
        sa.bindparam("b_now", type_=sa.Double),
    )
    .join(ACTIONS, ACTIONS.c.id == ENTRIES.c.action_id)
    .where(ENTRIES.c.chain_id == sa.bindparam("b_chain"))
    .order_by(ENTRIES.c.sort_order, ENTRIES.c.minion),
)
_IS_DRAFT = CHAINS.c.run.is_(None)
_UNENDED = _IS_DRAFT | RUNS.c.state.not_in([state.value for state in ENDED_CHAINS])


class DraftEntry(NamedTuple):
    """An entry of a chain, without its action."""

    action_id: int
    minion: str
    sort_order: int


# -- chains ------------------------------------------------------------------------------------


def draft(conn: sa.Connection, label: str) -> ChainRecord | None:
    """Return the draft with a label, or None."""
    return _newest(conn, label, _IS_DRAFT)


def unended(conn: sa.Connection, label: str) -> ChainRecord | None:
    """Return the newest chain with a label that has not ended, or None."""
    return _newest(conn, label, _UNENDED)


def _newest(conn: sa.Connection, label: str, rule: sa.ColumnElement[bool]) -> ChainRecord | None:
    query = rows.CHAIN_ROWS.where(CHAINS.c.label == label, rule)
    return next(iter(rows.chains(conn, query.order_by(CHAINS.c.id.desc()).limit(1))), None)


def insert(conn: sa.Connection, values: Mapping[str, Any]) -> int:
    """Store a new chain; return its id."""
    key = conn.execute(sa.insert(CHAINS).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


# -- entries -----------------------------------------------------------------------------------


def insert_step(
    conn: sa.Connection,
    chain_id: int,
    values: Mapping[str, Any],
    minions: Sequence[str],
    order: int,
) -> list[int]:
    """Store an action with an entry for each of *minions*; return the actions' ids.

    Args:
        conn: the running transaction.
        chain_id: the chain.
        values: columns of the action.
        minions: at least one.
        order: sort order of the entries.
    """
    keys = insert_many(conn, ACTIONS.c.id, [{"chain_id": chain_id, **values}] * len(minions))
    entries = [
        {"action_id": key, "chain_id": chain_id, "minion": minion, "sort_order": order}
        for key, minion in zip(keys, minions, strict=True)
    ]
    conn.execute(_INSERT_ENTRY, entries)
    return list(keys)


def orders(conn: sa.Connection, row: ChainRecord) -> list[int]:
    """Return the sort orders of a chain that have entries, ascending."""
    query = sa.select(ENTRIES.c.sort_order).where(ENTRIES.c.chain_id == row.id).distinct()
    return sorted(conn.execute(query).scalars())


def entries_at(conn: sa.Connection, row: ChainRecord, order: int) -> list[DraftEntry]:
    """Return the entries at a sort order.

    Raises:
        NotFoundError: there are none.
    """
    query = sa.select(*(ENTRIES.c[name] for name in DraftEntry._fields))
    query = query.where(ENTRIES.c.chain_id == row.id, ENTRIES.c.sort_order == order)
    found = [DraftEntry._make(entry) for entry in conn.execute(query)]
    if not found:
        raise NotFoundError(f"{row.title} has no action with sort order {order}")
    return found


def reorder(conn: sa.Connection, row: ChainRecord, orders: Sequence[int]) -> None:
    """Renumber the entries: those with the sort order orders[n] get the sort order n.

    Negative numbers are used in between, because no two entries of a minion may share a sort order
    at any moment.
    """
    for step in (lambda n: -1 - n, None):
        for new, old in enumerate(orders):
            source = old if step else -1 - new
            rule = (ENTRIES.c.chain_id == row.id) & (ENTRIES.c.sort_order == source)
            target = step(new) if step else new
            conn.execute(sa.update(ENTRIES).where(rule).values(sort_order=target))


def replace_actions(
    conn: sa.Connection, entries: Collection[DraftEntry], values: Mapping[str, Any]
) -> None:
    """Change the actions of entries; their ids stay the same."""
    rule = ACTIONS.c.id.in_([entry.action_id for entry in entries])
    conn.execute(sa.update(ACTIONS).where(rule).values(values))


def remove(conn: sa.Connection, entries: Collection[DraftEntry]) -> None:
    """Delete entries with their actions."""
    rule = ACTIONS.c.id.in_([entry.action_id for entry in entries])
    conn.execute(sa.delete(ACTIONS).where(rule))


def remove_all(conn: sa.Connection, chain_id: int) -> None:
    """Delete all entries of a chain with their actions."""
    conn.execute(sa.delete(ACTIONS).where(ACTIONS.c.chain_id == chain_id))


def contents(conn: sa.Connection, chain_id: int) -> Iterator[tuple[Any, ...]]:
    """Yield minion, sort order, kind, stored data and repeat of a chain's entries, in order."""
    query = (
        sa.select(ENTRIES.c.minion, ENTRIES.c.sort_order, ACTIONS.c.kind)
        .add_columns(sa.type_coerce(ACTIONS.c.data, sa.LargeBinary), ACTIONS.c.repeat)
        .join(ACTIONS, ACTIONS.c.id == ENTRIES.c.action_id)
        .where(ENTRIES.c.chain_id == chain_id)
        .order_by(ENTRIES.c.sort_order, ENTRIES.c.minion)
    )
    return map(tuple, conn.execute(query))


# -- executions --------------------------------------------------------------------------------


def insert_every_execution(
    conn: sa.Connection, chain: ChainRecord, state: str, now: float
) -> None:
    """Store an execution in *state* for each entry of a chain, in its newest run."""
    every = {
        "b_chain": chain.id,
        "b_run": chain.run,
        "b_epoch": chain.epoch,
        "b_state": state,
        "b_now": now,
    }
    conn.execute(_INSERT_EVERY_EXECUTION, every)
