"""Makes the views of chains that clients get, from rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from catena.client.replies.chains import (
    ActionView,
    ChainLine,
    ChainView,
    CleanWaitView,
    MinionView,
    PauseView,
)
from catena.master.chains import actions, rows, view_rows, wait_rows
from catena.master.chains.actions import ActionPlan, ActionType
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.holds import CleanWait
from catena.master.chains.lifecycle import (
    ENDED_CHAINS,
    ChainState,
)
from catena.master.chains.model import ChainExecution, ChainRecord, HistoryLine
from catena.master.chains.waits import Wait
from catena.master.executions import approvals, pauses
from catena.master.executions.lifecycle import OPEN, ExecutionState, Status, status
from catena.master.executions.model import Suspension

HISTORY_LIMIT = 200
#: Maximum number of names of changed things in a summary; the others are only counted.
_NAMED = 3
#: Stored state -> status. A dictionary, because it is used for every action of every minion.
_STATUS = {state.value: status(state).value for state in ExecutionState}
_QUEUED, _PICKED_UP = Status.queued.value, Status.picked_up.value
_COMPLETED, _FAILED = Status.completed.value, Status.failed.value
_NO_WAIT = Wait()
#: Statuses, the worst first. A minion's status is the worst one of its actions.
_WORST = (_FAILED, _PICKED_UP, _QUEUED, _COMPLETED)


def show(conn: sa.Connection, row: ChainRecord, parts: ChainParts) -> ChainView:
    """Return everything about a chain, and what its open actions wait for."""
    by_minion = _actions(conn, row, parts)
    ahead = rows.ahead(conn, row.run)
    over_ssh = parts.ssh.status_texts(conn, list(by_minion), ahead) if row.dispatched else {}
    fences = wait_rows.fences(conn, row.id)
    paused = pauses.of_run(conn, row.run)
    cleans = wait_rows.clean_waits(conn, parts).get(row.run or 0, ())
    behind = {wait.fence.minion for wait in cleans}
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
                name,
                found,
                _Notes(
                    ahead.get(name, ""),
                    over_ssh.get(name, ""),
                    fences.get(name, ""),
                    pauses.on(paused, name) is not None,
                    name in behind,
                ),
            )
            for name, found in sorted(by_minion.items())
        ),
        paused=_pauses(paused),
        cleans=_cleans(cleans, parts),
        history=tuple(_event(e) for e in view_rows.history(conn, row.id, HISTORY_LIMIT)),
    )


def lines(conn: sa.Connection, found: Sequence[ChainRecord], parts: ChainParts) -> list[ChainLine]:
    """Return chains as lines of a list."""
    ids = [row.id for row in found]
    sizes = view_rows.count_entries(conn, ids) if ids else {}
    states = view_rows.count_states(conn, sizes) if sizes else {}
    paused = pauses.of_runs(conn, [row.run for row in found if row.run])
    cleans = wait_rows.clean_waits(conn, parts)
    listed = []
    for row in found:
        counts: defaultdict[str, int] = defaultdict(int)
        for state, count in states.get(row.id, {}).items():
            counts[_STATUS[state]] += count
        size = sizes.get(row.id, (0, 0))
        times = (row.created, row.due or 0.0)
        listed.append(
            ChainLine(
                row.id, row.label, row.user, row.state, row.reason, *times, *size,
                dict(counts), row.archived, _pauses(paused.get(row.run or 0, ())),
                _cleans(cleans.get(row.run or 0, ()), parts),
            )
        )  # fmt: skip
    return listed


def _pauses(found: Sequence[Suspension]) -> tuple[PauseView, ...]:
    return tuple(PauseView(each.minion, each.who, each.at) for each in found)


def _cleans(found: Sequence[CleanWait], parts: ChainParts) -> tuple[CleanWaitView, ...]:
    return tuple(
        CleanWaitView(
            wait.fence.minion,
            wait.fence.run.chain_id,
            wait.why,
            parts.jobs.by_wall_clock(wait.until),
        )
        for wait in found
    )


def summary(changes: Mapping[str, Any]) -> str:
    """Return the number of changed things and the first names; "" if nothing changed.

    An action that applied SLS has the results of its states under `ret`. Then the summary counts
    the states that changed something.
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


def _actions(
    conn: sa.Connection, row: ChainRecord, parts: ChainParts
) -> dict[str, list[ActionView]]:
    """Return the actions of a chain on each minion, in order."""
    newest = rows.newest(conn, row.id)
    waits = wait_rows.of_chain(conn, row, newest, parts.clocks.read(), parts)
    by_minion: defaultdict[str, list[ActionView]] = defaultdict(list)
    outcomes = view_rows.outcomes(conn, row.id)
    titles = _Titles()
    for entry in rows.entries(conn, row.id):
        action = _action(entry, titles, newest.get(entry.action_id), outcomes, waits)
        by_minion[entry.minion].append(action)
    return by_minion


class _Titles:
    """A cache of titles by plan; equal actions of many minions share one plan."""

    def __init__(self) -> None:
        #: id(plan) -> title and plan. The reference to the plan keeps its id from being reused.
        self._known: dict[int, tuple[str, ActionPlan]] = {}

    def of(self, plan: ActionPlan) -> str:
        """Return the title of a plan."""
        known = self._known.get(id(plan))
        if known is None:
            known = self._known[id(plan)] = (actions.title(plan), plan)
        return known[0]


def _action(
    entry: rows.Entry,
    titles: _Titles,
    execution: ChainExecution | None,
    outcomes: Mapping[int, view_rows.StoredOutcome],
    waits: Mapping[int, Wait],
) -> ActionView:
    plan = entry.plan
    common = (entry.action_id, entry.sort_order, plan.type.value, titles.of(plan))
    if execution is None:
        wait = waits[entry.action_id]
        return ActionView(
            *common, "", _QUEUED, "", "", "", {}, 0.0, 0.0, 0, 0, wait.text, wait.until
        )
    wait = waits[entry.action_id] if execution.state in OPEN else _NO_WAIT
    outcome = outcomes[execution.id]
    changes = outcome.changes if isinstance(outcome.changes, dict) else {}
    return ActionView(
        *common,
        state=execution.state,
        status=_STATUS[execution.state],
        reason=execution.reason,
        comment=outcome.comment,
        # The only "change" of a reboot is the answer that it is armed.
        summary="" if plan.type is ActionType.reboot else summary(changes),
        changes=changes,
        started=execution.started or 0.0,
        ended=execution.ended or 0.0,
        chunk=execution.chunk,
        epoch=execution.epoch,
        waits=wait.text,
        until=wait.until,
    )


class _Notes(NamedTuple):
    """Facts about a chain on one minion that its note shows."""

    #: Title of the open chain directly before it on the minion; "": there is none.
    ahead: str
    #: Status of a host that the master reaches over SSH; "": the minion has an agent.
    over_ssh: str
    #: Text about a run that the minion has to remove; "": there is none.
    fence: str
    paused: bool
    #: Whether its start waits for a clean-up there.
    behind: bool


def _minion(name: str, found: Sequence[ActionView], notes: _Notes) -> MinionView:
    """Return the view of a chain on one minion; *found* are its actions there."""
    ahead, over_ssh, fence, paused, behind = notes
    statuses = [action.status for action in found]
    worst = next((each for each in _WORST if each in statuses), _QUEUED)
    if worst == _QUEUED and _COMPLETED in statuses:
        worst = _PICKED_UP
    done = statuses.count(_COMPLETED)
    waiting = [a.reason for a in found if a.status == _PICKED_UP and a.reason]
    note = f"{done} of {len(found)} done"
    if waiting:
        note += {
            "reboot": ", waits for the boot",
            "agent_upgrade": ", waits for the new agent",
        }.get(waiting[0], f", {waiting[0]}")
    elif ahead and worst == _QUEUED:
        note += f", waits behind {ahead}"
    if over_ssh and any(a.state in OPEN for a in found):
        note += f", {over_ssh}"
    if paused and any(a.status in (_QUEUED, _PICKED_UP) for a in found):
        note += ", paused"
    elif behind:
        note += ", waits for a clean-up"
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
