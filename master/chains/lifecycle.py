"""The life cycles of chains, of their runs on minions, and of chunks, as tables."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row
from catena.master.executions.lifecycle import ExecutionState, ReferenceCycle, check_statuses


class ChainState(StrEnum):
    """The states of an action chain; the values are stored."""

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
    """The events of a chain."""

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


#: Notes in a chain's history: the start of its run on a minion is held back, and is sent later.
HELD_BACK = "held_back"
HANDED_OVER = "handed_over"


class ChunkState(StrEnum):
    """The states of one chunk file of one minion; the values are stored."""

    rendered = "rendered"
    shipped = "shipped"
    applied = "applied"
    failed = "failed"
    removed = "removed"


class ChunkEvent(StrEnum):
    """The events of a chunk file."""

    ship = "ship"
    apply = "apply"
    fail = "fail"
    remove = "remove"


class MinionState(StrEnum):
    """The states of a run of a chain on one minion; the values are stored."""

    pending = "pending"
    sent = "sent"
    running = "running"
    waiting = "waiting"
    fenced = "fenced"
    ended = "ended"
    lost = "lost"


class MinionEvent(StrEnum):
    """The events of a run of a chain on one minion."""

    send = "send"
    begin = "begin"
    wait = "wait"
    resume = "resume"
    end = "end"
    lose = "lose"
    fence = "fence"
    forget = "forget"


_C, _CE = ChainState, ChainEvent
#: Events that a minion reports, or that the master derives from reports, clocks and silence.
_REPORT = (Actor.agent, Actor.system)
#: A person, or the master if a time limit for the person has passed.
_REQUEST = (Actor.api, Actor.system)
_ANYBODY = (Actor.api, Actor.system, Actor.agent)

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
        # Not final: it can be retried from the failed action.
        _C.failed: Kind.failure,
        _C.cancelled: Kind.final,
    },
    [_C.draft],
    [
        Row(_C.draft, _CE.schedule, _C.scheduled, Actor.api, "A person set its due time."),
        Row(_C.draft, _CE.ask_approval, _C.pending_approval, Actor.api, "It needs an approval."),
        Row(_C.pending_approval, _CE.approve, _C.scheduled, Actor.api, "A person approved it."),
        Row(_C.pending_approval, _CE.cancel, _C.cancelled, _REQUEST, "Refused, late or unwanted."),
        Row(_C.scheduled, _CE.hold, _C.waiting, Actor.system, "The clocks disagree."),
        Row(_C.waiting, _CE.release, _C.scheduled, Actor.api, "A person released it."),
        Row(_C.waiting, _CE.cancel, _C.cancelled, Actor.api, "A person cancelled it."),
        Row(_C.scheduled, _CE.cancel, _C.cancelled, Actor.api, "A person cancelled it."),
        Row(_C.scheduled, _CE.dispatch, _C.dispatched, Actor.system, "It is due; claimed once."),
        Row(_C.scheduled, _CE.fail, _C.failed, Actor.system, "Too late, or it can't be rendered."),
        Row(_C.dispatched, _CE.start, _C.running, Actor.agent, "The first minion began."),
        Row(_C.dispatched, _CE.finish, _C.done, _REPORT, "Every action is done."),
        Row(_C.dispatched, _CE.fail, _C.failed, _REPORT, "Every action ended, some failed."),
        Row(_C.dispatched, _CE.cancel, _C.cancelled, Actor.api, "A person cancelled it."),
        Row(_C.running, _CE.finish, _C.done, _REPORT, "Every action is done."),
        Row(_C.running, _CE.fail, _C.failed, _REPORT, "Every action ended, some failed."),
        Row(_C.running, _CE.cancel, _C.cancelled, Actor.api, "A person cancelled it."),
        Row(_C.failed, _CE.retry, _C.scheduled, Actor.api, "It runs again, from the failure on."),
        Row(_C.failed, _CE.resolve, _C.done, Actor.api, "A person marked the rest as done."),
        Row(_C.failed, _CE.cancel, _C.cancelled, Actor.api, "A person gave it up."),
    ],
    failures=[_CE.fail],
)

_S = ExecutionState
#: The common status of each state that a run of a chain can have.
STATUSES = check_statuses(
    CHAIN,
    {
        _C.pending_approval: _S.PENDING_APPROVE,
        _C.scheduled: _S.PENDING_SCHEDULE,
        _C.waiting: _S.PENDING_SCHEDULE,
        _C.dispatched: _S.NEW,
        _C.running: _S.RUNNING,
        _C.done: _S.DONE,
        _C.failed: _S.FAILED,
        _C.cancelled: _S.CANCELLED,
    },
    opening=(_CE.schedule, _CE.ask_approval, _CE.retry, _CE.resolve),
)

_M, _ME = MinionState, MinionEvent
_OVER = "All its actions ended."
_LOST = "Its job ended without a return, or it has reported nothing for too long."
_FENCED = "It ended on the master and may still run on the minion."

MINION = Machine(
    "run of a chain on a minion",
    {
        _M.pending: Kind.wait,
        _M.sent: Kind.wait,
        _M.running: Kind.working,
        _M.waiting: Kind.wait,
        # The removal is retried until the minion confirms it; nothing else ends this state.
        _M.fenced: Kind.working,
        # Not final: a minion that reports an ended run has to remove it.
        _M.ended: Kind.stable,
        _M.lost: Kind.failure,
    },
    [_M.pending, _M.sent],
    [
        Row(_M.pending, _ME.send, _M.sent, Actor.system, "The host is known: its job is stored."),
        Row(_M.pending, _ME.end, _M.ended, _ANYBODY, "It can't be used, or is cancelled."),
        Row(_M.sent, _ME.begin, _M.running, _REPORT, "Its first report arrived."),
        Row(_M.sent, _ME.wait, _M.waiting, _REPORT, "Its first report was that it reboots."),
        Row(_M.sent, _ME.end, _M.ended, _ANYBODY, _OVER),
        Row(_M.sent, _ME.lose, _M.lost, _REPORT, _LOST),
        Row(_M.sent, _ME.fence, _M.fenced, _ANYBODY, _FENCED),
        Row(_M.running, _ME.wait, _M.waiting, _REPORT, "It reboots, or gets a new agent."),
        Row(_M.running, _ME.end, _M.ended, _ANYBODY, _OVER),
        Row(_M.running, _ME.lose, _M.lost, _REPORT, _LOST),
        Row(_M.running, _ME.fence, _M.fenced, _ANYBODY, _FENCED),
        Row(_M.waiting, _ME.resume, _M.running, _REPORT, "The boot is proven; actions are left."),
        Row(_M.waiting, _ME.end, _M.ended, _ANYBODY, _OVER),
        Row(_M.waiting, _ME.lose, _M.lost, _REPORT, _LOST),
        Row(_M.waiting, _ME.fence, _M.fenced, _ANYBODY, _FENCED),
        Row(
            _M.fenced, _ME.forget, _M.ended, _REPORT, "The minion removed it, or its key is gone."
        ),
        Row(_M.ended, _ME.fence, _M.fenced, _ANYBODY, "The minion still reports it."),
        Row(_M.lost, _ME.fence, _M.fenced, _ANYBODY, "The minion still reports it."),
    ],
    failures=[_ME.lose, _ME.end],
    unfailing={_M.fenced: "It is retried until the minion confirms it."},
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
        Row(_K.rendered, _KE.fail, _K.failed, _REPORT, "The chain ended before it was sent."),
        Row(_K.shipped, _KE.apply, _K.applied, _REPORT, "Its results arrived."),
        Row(_K.shipped, _KE.fail, _K.failed, _REPORT, "It failed, or a chunk before it."),
        Row(_K.applied, _KE.remove, _K.removed, Actor.system, "Its file is gone."),
        Row(_K.failed, _KE.remove, _K.removed, Actor.system, "Its file is gone."),
    ],
    failures=[_KE.fail],
)

ACTIVE_CHAINS = frozenset({_C.dispatched, _C.running})
ENDED_CHAINS = frozenset({_C.done, _C.failed, _C.cancelled})

#: Sections of the reference.
LIFE_CYCLES = (
    ReferenceCycle(
        "Chains", "`catena chain list` and `catena chain show` print this state.", CHAIN
    ),
    ReferenceCycle(
        "Runs of chains on minions",
        "How far one minion is with one run of a chain, as the master sees it.",
        MINION,
    ),
    ReferenceCycle("Chunks", "A chunk is one file of a chain for one minion.", CHUNK),
)
