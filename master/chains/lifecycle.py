"""The life cycles of chains, executions and chunks, as tables (`semantics/one-model.md`)."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row


class ChainState(StrEnum):
    """Where an action chain stands; stored as is."""

    draft = "draft"
    pending_approval = "pending_approval"
    scheduled = "scheduled"
    waiting = "waiting"
    dispatched = "dispatched"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


class ChainEvent(StrEnum):
    """What can happen to a chain."""

    ask_approval = "ask_approval"
    approve = "approve"
    schedule = "schedule"
    hold = "hold"
    release = "release"
    dispatch = "dispatch"
    start = "start"
    finish = "finish"
    fail = "fail"
    cancel = "cancel"
    retry = "retry"
    resolve = "resolve"


class ExecutionState(StrEnum):
    """Where one action on one minion stands; stored as is."""

    PENDING_APPROVE = "PENDING_APPROVE"
    PENDING_SCHEDULE = "PENDING_SCHEDULE"
    NEW = "NEW"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


class ExecutionEvent(StrEnum):
    """What can happen to an execution."""

    approve = "approve"
    dispatch = "dispatch"
    begin = "begin"
    succeed = "succeed"
    fail = "fail"
    reject = "reject"
    vouch = "vouch"
    cancel = "cancel"
    lose = "lose"


class ChunkState(StrEnum):
    """Where one chunk file of one minion stands."""

    rendered = "rendered"
    shipped = "shipped"
    applied = "applied"
    failed = "failed"
    removed = "removed"


class ChunkEvent(StrEnum):
    """What can happen to a chunk file."""

    ship = "ship"
    apply = "apply"
    fail = "fail"
    remove = "remove"


class Status(StrEnum):
    """The four-status view of an execution."""

    queued = "Queued"
    picked_up = "Picked Up"
    completed = "Completed"
    failed = "Failed"


#: What a minion reports, and what the master concludes from reports, clocks and silence.
_REPORT = (Actor.agent, Actor.system)
#: A request cancels, and so does a minion on which a person has cleared the chain.
_CANCEL = (Actor.api, Actor.agent)

_C, _CE = ChainState, ChainEvent

CHAIN = Machine(
    "chain",
    {
        _C.draft: Kind.stable,
        _C.pending_approval: Kind.hold,
        _C.scheduled: Kind.wait,
        _C.waiting: Kind.hold,
        _C.dispatched: Kind.working,
        _C.running: Kind.working,
        _C.done: Kind.final,
        # A failed chain is kept so that it can be retried from the failed action.
        _C.failed: Kind.failure,
        _C.cancelled: Kind.final,
    },
    [_C.draft],
    [
        Row(_C.draft, _CE.schedule, _C.scheduled, Actor.api, "A person gave it a time."),
        Row(_C.draft, _CE.ask_approval, _C.pending_approval, Actor.api, "It needs a second look."),
        Row(_C.pending_approval, _CE.approve, _C.scheduled, Actor.api, "Somebody looked."),
        Row(_C.pending_approval, _CE.cancel, _C.cancelled, Actor.api, "Nobody wants it."),
        Row(_C.scheduled, _CE.hold, _C.waiting, Actor.system, "The clocks disagree."),
        Row(_C.waiting, _CE.release, _C.scheduled, Actor.api, "A person says that it is time."),
        Row(_C.waiting, _CE.cancel, _C.cancelled, Actor.api, "A person says that it is not."),
        Row(_C.scheduled, _CE.cancel, _C.cancelled, Actor.api, "It is not to run."),
        Row(_C.scheduled, _CE.dispatch, _C.dispatched, Actor.system, "It is due; claimed once."),
        Row(_C.scheduled, _CE.fail, _C.failed, Actor.system, "Too late, or it can't be rendered."),
        Row(_C.dispatched, _CE.start, _C.running, Actor.agent, "The first minion began."),
        Row(_C.dispatched, _CE.finish, _C.done, _REPORT, "Every action is done."),
        Row(_C.dispatched, _CE.fail, _C.failed, _REPORT, "Every action ended, some badly."),
        Row(_C.dispatched, _CE.cancel, _C.cancelled, Actor.api, "A person stops it."),
        Row(_C.running, _CE.finish, _C.done, _REPORT, "Every action is done."),
        Row(_C.running, _CE.fail, _C.failed, _REPORT, "Every action ended, some badly."),
        Row(_C.running, _CE.cancel, _C.cancelled, Actor.api, "A person stops it."),
        Row(_C.failed, _CE.retry, _C.scheduled, Actor.api, "Again, from the failed action."),
        Row(_C.failed, _CE.resolve, _C.done, Actor.api, "A person says that the rest was done."),
        Row(_C.failed, _CE.cancel, _C.cancelled, Actor.api, "It is given up."),
    ],
    failures=[_CE.fail],
)

_E, _EE = ExecutionState, ExecutionEvent

EXECUTION = Machine(
    "execution",
    {
        _E.PENDING_APPROVE: Kind.hold,
        _E.PENDING_SCHEDULE: Kind.wait,
        _E.NEW: Kind.wait,
        _E.RUNNING: Kind.working,
        _E.DONE: Kind.final,
        _E.FAILED: Kind.final,
        _E.CANCELLED: Kind.final,
        _E.LOST: Kind.final,
    },
    [_E.PENDING_APPROVE, _E.PENDING_SCHEDULE],
    [
        Row(_E.PENDING_APPROVE, _EE.approve, _E.PENDING_SCHEDULE, Actor.api, "The chain was."),
        Row(_E.PENDING_APPROVE, _EE.cancel, _E.CANCELLED, Actor.api, "The chain was."),
        Row(_E.PENDING_SCHEDULE, _EE.dispatch, _E.NEW, Actor.system, "The chain was."),
        Row(_E.PENDING_SCHEDULE, _EE.vouch, _E.DONE, Actor.api, "A person says that it was done."),
        Row(_E.PENDING_SCHEDULE, _EE.reject, _E.FAILED, Actor.system, "Too late, or no minion."),
        Row(_E.PENDING_SCHEDULE, _EE.cancel, _E.CANCELLED, Actor.api, "The chain was."),
        Row(_E.NEW, _EE.begin, _E.RUNNING, Actor.agent, "Its begin is durable on the minion."),
        Row(_E.NEW, _EE.succeed, _E.DONE, Actor.agent, "Its result came before word of a begin."),
        Row(_E.NEW, _EE.fail, _E.FAILED, _REPORT, "It failed, or one before it did."),
        Row(_E.NEW, _EE.cancel, _E.CANCELLED, _CANCEL, "The chain was."),
        Row(_E.NEW, _EE.lose, _E.LOST, _REPORT, "The job ended without a word of it."),
        Row(_E.RUNNING, _EE.succeed, _E.DONE, Actor.agent, "Its result, or the proof, came."),
        Row(_E.RUNNING, _EE.fail, _E.FAILED, _REPORT, "It failed, or its deadline passed."),
        Row(_E.RUNNING, _EE.cancel, _E.CANCELLED, _CANCEL, "The chain was."),
        Row(_E.RUNNING, _EE.lose, _E.LOST, _REPORT, "The job ended without a word of it."),
    ],
    failures=[_EE.fail, _EE.reject, _EE.lose],
)

_K, _KE = ChunkState, ChunkEvent

CHUNK = Machine(
    "chunk",
    {
        _K.rendered: Kind.wait,
        _K.shipped: Kind.working,
        _K.applied: Kind.stable,
        _K.failed: Kind.failure,
        _K.removed: Kind.final,
    },
    [_K.rendered],
    [
        Row(_K.rendered, _KE.ship, _K.shipped, Actor.system, "The job that names it is stored."),
        Row(_K.rendered, _KE.fail, _K.failed, Actor.system, "The chain ended before it was sent."),
        Row(_K.shipped, _KE.apply, _K.applied, _REPORT, "Its results came."),
        Row(_K.shipped, _KE.fail, _K.failed, _REPORT, "It, or one before it, failed."),
        Row(_K.applied, _KE.remove, _K.removed, Actor.system, "Its file is gone."),
        Row(_K.failed, _KE.remove, _K.removed, Actor.system, "Its file is gone."),
    ],
    failures=[_KE.fail],
)

ACTIVE_CHAINS = frozenset({_C.dispatched, _C.running})
ENDED_CHAINS = frozenset({_C.done, _C.failed, _C.cancelled})

_STATUS = {
    _E.PENDING_APPROVE: Status.queued,
    _E.PENDING_SCHEDULE: Status.queued,
    _E.NEW: Status.queued,
    _E.RUNNING: Status.picked_up,
    _E.DONE: Status.completed,
    _E.FAILED: Status.failed,
    _E.CANCELLED: Status.failed,
    _E.LOST: Status.failed,
}


def status(state: ExecutionState) -> Status:
    """Return the four-status view of *state*."""
    return _STATUS[state]
