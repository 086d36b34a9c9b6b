"""The life cycles that engines share: that of an execution, and that of a run's common status."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from catena.core.fsm import Actor, Kind, Machine, Row, TableError

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class ExecutionState(StrEnum):
    """The eight common states; stored as they are."""

    PENDING_APPROVE = "PENDING_APPROVE"
    PENDING_SCHEDULE = "PENDING_SCHEDULE"
    NEW = "NEW"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


class ReferenceCycle(NamedTuple):
    """A life cycle as the reference (docs/reference/life-cycles.md) describes it."""

    title: str
    #: Markdown below the title: what has this life cycle, and where users see its state.
    text: str
    machine: Machine[Any, Any]


class ExecutionEvent(StrEnum):
    """The events of an execution."""

    approve = "approve"
    dispatch = "dispatch"
    begin = "begin"
    pick_up = "pick_up"
    succeed = "succeed"
    fail = "fail"
    reject = "reject"
    vouch = "vouch"
    cancel = "cancel"
    lose = "lose"


class RunEvent(StrEnum):
    """The events of the common status of a run."""

    approve = "approve"
    dispatch = "dispatch"
    begin = "begin"
    succeed = "succeed"
    fail = "fail"
    cancel = "cancel"
    give_up = "give_up"
    lose = "lose"


class Status(StrEnum):
    """The four-status view of an execution."""

    queued = "Queued"
    picked_up = "Picked Up"
    completed = "Completed"
    failed = "Failed"


_S, _E, _R = ExecutionState, ExecutionEvent, RunEvent
_ANYBODY = (Actor.api, Actor.system, Actor.agent)
_REPORT = (Actor.agent, Actor.system)

EXECUTION = Machine(
    "execution",
    {
        _S.PENDING_APPROVE: Kind.hold,
        _S.PENDING_SCHEDULE: Kind.wait,
        _S.NEW: Kind.wait,
        _S.RUNNING: Kind.working,
        _S.DONE: Kind.final,
        _S.FAILED: Kind.final,
        _S.CANCELLED: Kind.final,
        _S.LOST: Kind.final,
    },
    [_S.PENDING_APPROVE, _S.PENDING_SCHEDULE],
    [
        Row(
            _S.PENDING_APPROVE, _E.approve, _S.PENDING_SCHEDULE, Actor.api, "Its run is approved."
        ),
        Row(_S.PENDING_APPROVE, _E.cancel, _S.CANCELLED, _ANYBODY, "Its run is cancelled."),
        Row(_S.PENDING_SCHEDULE, _E.dispatch, _S.NEW, Actor.system, "Its run is dispatched."),
        Row(_S.PENDING_SCHEDULE, _E.vouch, _S.DONE, Actor.api, "A person marked it as done."),
        Row(_S.PENDING_SCHEDULE, _E.reject, _S.FAILED, _REPORT, "Too late, or no minion."),
        Row(_S.PENDING_SCHEDULE, _E.cancel, _S.CANCELLED, _ANYBODY, "Its run is cancelled."),
        Row(_S.NEW, _E.begin, _S.RUNNING, Actor.agent, "Its begin is durable on the minion."),
        Row(_S.NEW, _E.succeed, _S.DONE, Actor.agent, "Its result arrived before its begin."),
        Row(_S.NEW, _E.fail, _S.FAILED, _REPORT, "It failed, or an action before it."),
        Row(_S.NEW, _E.cancel, _S.CANCELLED, _ANYBODY, "Cancelled, here or on the minion."),
        Row(_S.NEW, _E.lose, _S.LOST, _REPORT, "The job ended without reporting it."),
        Row(_S.RUNNING, _E.pick_up, _S.RUNNING, Actor.agent, "It waits for the proof of a boot."),
        Row(_S.RUNNING, _E.succeed, _S.DONE, _REPORT, "Its result or the proof arrived."),
        Row(_S.RUNNING, _E.fail, _S.FAILED, _REPORT, "It failed, or its deadline passed."),
        Row(_S.RUNNING, _E.cancel, _S.CANCELLED, _ANYBODY, "Cancelled, here or on the minion."),
        Row(_S.RUNNING, _E.lose, _S.LOST, _REPORT, "The job ended without reporting it."),
    ],
    failures=[_E.fail, _E.reject, _E.lose],
)

#: Allowed changes of a run's common status, independent of the engine's own states.
RUN = Machine(
    "run",
    {
        _S.PENDING_APPROVE: Kind.hold,
        _S.PENDING_SCHEDULE: Kind.wait,
        _S.NEW: Kind.wait,
        _S.RUNNING: Kind.working,
        _S.DONE: Kind.final,
        # Not final: a failed run can be given up, or retried in the next epoch.
        _S.FAILED: Kind.failure,
        _S.CANCELLED: Kind.final,
        _S.LOST: Kind.final,
    },
    [_S.PENDING_APPROVE, _S.PENDING_SCHEDULE, _S.NEW, _S.DONE, _S.FAILED],
    [
        Row(_S.PENDING_APPROVE, _R.approve, _S.PENDING_SCHEDULE, Actor.api, "It was approved."),
        Row(_S.PENDING_APPROVE, _R.cancel, _S.CANCELLED, _ANYBODY, "Refused or cancelled."),
        Row(_S.PENDING_SCHEDULE, _R.dispatch, _S.NEW, Actor.system, "It is due."),
        Row(_S.PENDING_SCHEDULE, _R.fail, _S.FAILED, _REPORT, "Too late, or it can't begin."),
        Row(_S.PENDING_SCHEDULE, _R.cancel, _S.CANCELLED, _ANYBODY, "It was cancelled."),
        Row(_S.NEW, _R.begin, _S.RUNNING, _REPORT, "Its first execution began."),
        Row(_S.NEW, _R.succeed, _S.DONE, _REPORT, "Every execution is done."),
        Row(_S.NEW, _R.fail, _S.FAILED, _REPORT, "Every execution ended, some failed."),
        Row(_S.NEW, _R.cancel, _S.CANCELLED, _ANYBODY, "It was cancelled."),
        Row(_S.NEW, _R.lose, _S.LOST, Actor.system, "It has reported nothing for too long."),
        Row(_S.RUNNING, _R.lose, _S.LOST, Actor.system, "It has reported nothing for too long."),
        Row(_S.RUNNING, _R.succeed, _S.DONE, _REPORT, "Every execution is done."),
        Row(_S.RUNNING, _R.fail, _S.FAILED, _REPORT, "Every execution ended, some failed."),
        Row(_S.RUNNING, _R.cancel, _S.CANCELLED, _ANYBODY, "It was cancelled."),
        Row(_S.FAILED, _R.give_up, _S.CANCELLED, _ANYBODY, "It was given up."),
    ],
    failures=[_R.fail, _R.lose],
)

_STATUS = {
    _S.PENDING_APPROVE: Status.queued,
    _S.PENDING_SCHEDULE: Status.queued,
    _S.NEW: Status.queued,
    _S.RUNNING: Status.picked_up,
    _S.DONE: Status.completed,
    _S.FAILED: Status.failed,
    _S.CANCELLED: Status.failed,
    _S.LOST: Status.failed,
}

#: Stored texts of the states of executions that have not ended.
OPEN = tuple(state.value for state in ExecutionState if not EXECUTION.is_final(state))


def status(state: ExecutionState) -> Status:
    """Return the four-status view of *state*."""
    return _STATUS[state]


def check_statuses(
    machine: Machine[S, E], statuses: Mapping[S, ExecutionState], opening: Collection[E] = ()
) -> Mapping[S, ExecutionState]:
    """Check that *statuses* agree with the common life cycle of runs, and return them.

    Args:
        machine: an engine's life cycle of runs.
        statuses: the common status of each state of *machine*.
        opening: events that open the next run instead of moving a run.

    Raises:
        TableError: a state has no status, or a transition changes the status in a way that `RUN`
            does not allow.
    """
    allowed = {(row.source, row.target) for row in RUN.rows.values()}
    for row in machine.rows.values():
        if row.event in opening:
            continue
        if row.source not in statuses or row.target not in statuses:
            raise TableError(
                f"{machine.name}: {row.source.value} or {row.target.value}: no status"
            )
        change = (statuses[row.source], statuses[row.target])
        if change[0] is not change[1] and change not in allowed:
            raise TableError(
                f"{machine.name}: {row.event.value} changes the status {change[0]} to "
                f"{change[1]}, which RUN does not allow"
            )
    return statuses
