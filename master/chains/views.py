"""What people see of chains, made from rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from catena.client.replies.chains import ActionView, ChainLine, ChainView, MinionView
from catena.master.chains import actions, rows, view_rows, wait_rows
from catena.master.chains.actions import ActionType
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.lifecycle import (
    ENDED_CHAINS,
    ChainState,
)
from catena.master.chains.model import ChainExecution, ChainRecord, HistoryLine
from catena.master.chains.waits import Wait
from catena.master.executions import approvals
from catena.master.executions.lifecycle import EXECUTION, ExecutionState, Status, status

HISTORY_LIMIT = 200
#: Names of changed things that a summary lists before it only counts.
_NAMED = 3


def show(conn: sa.Connection, row: ChainRecord, parts: ChainParts) -> ChainView:
    """Return everything about a chain, and what its open actions wait for."""
    newest = rows.newest(conn, row.id)
    waits = wait_rows.of_chain(conn, row, newest, parts.clocks.read(), parts.rules)
    by_minion: defaultdict[str, list[ActionView]] = defaultdict(list)
    told = view_rows.outcomes(conn, row.id)
    for entry in rows.entries(conn, row.id):
        action = _action(entry, newest.get(entry.action_id), told, waits)
        by_minion[entry.minion].append(action)
    ahead = rows.ahead(conn, row.run)
    over_ssh = parts.ssh.said(conn, list(by_minion), ahead) if row.dispatched else {}
    fences = wait_rows.fences(conn, row.id)
    runs = sorted(rows.runs(conn, row.id), key=lambda run: -run.epoch)
    return ChainView(
        id=row.id,
        label=row.label,
        user=row.user,
        state=row.state,
        reason=row.reason,
        epoch=row.epoch,
        created=row.created,
        due=row.due or 0.0,
        ended=(row.ended or 0.0) if ChainState(row.state) in ENDED_CHAINS else 0.0,
        approved_by=approvals.approved_by(conn, row.approval),
        dispatched=row.dispatched,
        archived=row.archived,
        jids=tuple(dict.fromkeys(run.jid for run in runs if run.jid)),
        minions=tuple(
            _minion(
                name, found, (ahead.get(name, ""), over_ssh.get(name, ""), fences.get(name, ""))
            )
            for name, found in sorted(by_minion.items())
        ),
        history=tuple(_event(e) for e in view_rows.history(conn, row.id, HISTORY_LIMIT)),
    )


def lines(conn: sa.Connection, found: Sequence[ChainRecord]) -> list[ChainLine]:
    """Return chains as lines of a list."""
    ids = [row.id for row in found]
    sizes = view_rows.count_entries(conn, ids) if ids else {}
    states = view_rows.count_states(conn, sizes) if sizes else {}
    listed = []
    for row in found:
        counts: defaultdict[str, int] = defaultdict(int)
        for state, count in states.get(row.id, {}).items():
            counts[status(ExecutionState(state)).value] += count
        size = sizes.get(row.id, (0, 0))
        times = (row.created, row.due or 0.0)
        listed.append(
            ChainLine(
                row.id, row.label, row.user, row.state, row.reason, *times, *size,
                dict(counts), row.archived,
            )
        )  # fmt: skip
    return listed


def summary(changes: Mapping[str, Any]) -> str:
    """Return how much changed, and what.

    An action that applied SLS has its states' results under `ret`; then those states that changed
    something are counted, and not the one that applied them.
    """
    inner = changes.get("ret")
    names = [str(name) for name in changes]
    if isinstance(inner, Mapping) and inner and all(_is_result(row) for row in inner.values()):
        names = [str(row.get("__id__") or key) for key, row in inner.items() if row.get("changes")]
    elif set(changes) == {"ret"}:
        return "" if inner in (None, "", {}, []) else "returned a value"
    if not names:
        return ""
    more = ", …" if len(names) > _NAMED else ""
    return f"{len(names)} changed: {', '.join(names[:_NAMED])}{more}"


def _is_result(row: Any) -> bool:
    return isinstance(row, Mapping) and "result" in row


def _action(
    entry: rows.Entry,
    execution: ChainExecution | None,
    told: Mapping[int, view_rows.Told],
    waits: Mapping[int, Wait],
) -> ActionView:
    plan = entry.plan
    common = (entry.action_id, entry.sort_order, plan.type.value, actions.title(plan))
    if execution is None:
        wait = waits[entry.action_id]
        return ActionView(
            *common, "", Status.queued.value, "", "", "", {}, 0.0, 0.0, 0, 0, wait.text, wait.until
        )
    is_open = not EXECUTION.is_final(ExecutionState(execution.state))
    wait = waits[entry.action_id] if is_open else Wait()
    said = told[execution.id]
    changes = said.changes if isinstance(said.changes, dict) else {}
    return ActionView(
        *common,
        state=execution.state,
        status=status(ExecutionState(execution.state)).value,
        reason=execution.reason,
        comment=said.comment,
        # A reboot's "change" is only the answer that it is armed.
        summary="" if plan.type is ActionType.reboot else summary(changes),
        changes=changes,
        started=execution.started or 0.0,
        ended=execution.ended or 0.0,
        chunk=execution.chunk,
        epoch=execution.epoch,
        waits=wait.text,
        until=wait.until,
    )


def _minion(name: str, found: Sequence[ActionView], said: tuple[str, str, str]) -> MinionView:
    """Return a chain on one minion.

    Args:
        name: of the minion.
        found: the actions there.
        said: the open chain before it there, where a host over SSH stands, and which run is to be
            forgotten; each may be "".
    """
    ahead, over_ssh, fence = said
    statuses = [action.status for action in found]
    order = (Status.failed, Status.picked_up, Status.queued, Status.completed)
    worst = next((each.value for each in order if each.value in statuses), Status.queued.value)
    if worst == Status.queued.value and Status.completed.value in statuses:
        worst = Status.picked_up.value
    done = statuses.count(Status.completed.value)
    waiting = [a.reason for a in found if a.status == Status.picked_up.value and a.reason]
    note = f"{done} of {len(found)} done"
    if waiting:
        note += {
            "reboot": ", waits for the boot",
            "agent_upgrade": ", waits for the new agent",
        }.get(waiting[0], f", {waiting[0]}")
    elif ahead and worst == Status.queued.value:
        note += f", waits behind {ahead}"
    if over_ssh and any(
        a.state and not EXECUTION.is_final(ExecutionState(a.state)) for a in found
    ):
        note += f", {over_ssh}"
    if fence:
        note += f"; {fence}"
    return MinionView(name, worst, note, tuple(found))


def _event(row: HistoryLine) -> dict[str, Any]:
    return {
        "at": row.at,
        "subject": row.subject,
        "number": row.number,
        "minion": row.minion,
        "epoch": row.epoch,
        "from": row.source,
        "event": row.event,
        "to": row.target,
        "by": row.by,
        "reason": row.reason,
    }
