"""The life of one job on one minion, as a literal table."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row


class Delivery(StrEnum):
    """Where a job stands on one minion."""

    held = "held"  #: waits for its turn in a batch
    queued = "queued"  #: stored; the minion is not connected, or it was not handed over yet
    paused = "paused"  #: not handed over until the work that it belongs to may go on
    sent = "sent"  #: handed to the connection, or about to; the minion has not said that it has it
    received = "received"  #: durable on the minion
    running = "running"  #: the minion reported a step
    done = "done"  #: the return is stored
    rejected = "rejected"  #: the minion will not run it and says why
    expired = "expired"  #: not handed over by its time
    cancelled = "cancelled"  #: stopped before or while it ran
    lost = "lost"  #: the minion had it and now knows nothing of it


class DeliveryEvent(StrEnum):
    """What moves a delivery."""

    release = "release"
    pause = "pause"
    continue_ = "continue"
    send = "send"
    keep = "keep"
    receive = "receive"
    progress = "progress"
    ret = "return"
    reject = "reject"
    expire = "expire"
    cancel = "cancel"
    stopped = "stopped"
    forgotten = "forgotten"
    restored = "restored"


_D, _C, _A = Delivery, DeliveryEvent, Actor
_BOTH = (Actor.api, Actor.system)

MACHINE: Machine[Delivery, DeliveryEvent] = Machine(
    "delivery",
    {
        _D.held: Kind.wait,
        _D.queued: Kind.wait,
        _D.paused: Kind.hold,
        _D.sent: Kind.wait,
        _D.received: Kind.wait,
        _D.running: Kind.working,
        _D.done: Kind.final,
        _D.rejected: Kind.final,
        _D.expired: Kind.final,
        _D.cancelled: Kind.final,
        _D.lost: Kind.final,
    },
    (_D.held, _D.queued, _D.paused, _D.sent),
    [
        Row(_D.held, _C.release, _D.queued, _A.system, "its turn in the batch has come"),
        Row(_D.queued, _C.send, _D.sent, _A.system, "the connection took it"),
        Row(_D.sent, _C.send, _D.sent, _A.system, "sent again on a new connection"),
        Row(_D.sent, _C.keep, _D.queued, _A.system, "its connection was gone, or took no more"),
        *(
            Row(state, cause, target, _A.agent, why)
            # A paused order may have been on its way when its work was paused.
            for state in (_D.queued, _D.paused, _D.sent)
            for cause, target, why in (
                (_C.receive, _D.received, "the minion has it on disk"),
                (_C.progress, _D.running, "the minion reported a step"),
                (_C.ret, _D.done, "the return is stored"),
                (_C.reject, _D.rejected, "the minion refuses it"),
                (_C.stopped, _D.cancelled, "the minion stopped it as asked"),
            )
        ),
        Row(_D.received, _C.receive, _D.received, _A.agent, "said again"),
        Row(_D.received, _C.progress, _D.running, _A.agent, "the minion reported a step"),
        Row(_D.received, _C.ret, _D.done, _A.agent, "the return is stored"),
        Row(_D.received, _C.reject, _D.rejected, _A.agent, "it expired in the minion's queue"),
        Row(_D.received, _C.stopped, _D.cancelled, _A.agent, "dropped from the minion's queue"),
        Row(_D.received, _C.forgotten, _D.lost, _A.agent, "a Hello no longer names it"),
        Row(_D.running, _C.progress, _D.running, _A.agent, "the next step"),
        Row(_D.running, _C.receive, _D.running, _A.agent, "said again"),
        Row(_D.running, _C.ret, _D.done, _A.agent, "the return is stored"),
        Row(_D.running, _C.reject, _D.rejected, _A.agent, "given up by the minion"),
        Row(_D.running, _C.stopped, _D.cancelled, _A.agent, "the minion stopped it as asked"),
        Row(_D.running, _C.forgotten, _D.lost, _A.agent, "a Hello no longer names it"),
        *(
            Row(
                state,
                _C.restored,
                _D.lost,
                _A.system,
                "may have run before the store was restored",
            )
            for state in (_D.held, _D.queued, _D.paused, _D.sent)
        ),
        Row(_D.held, _C.expire, _D.expired, _A.system, "its time is over"),
        Row(_D.queued, _C.expire, _D.expired, _A.system, "its time is over"),
        Row(_D.held, _C.cancel, _D.cancelled, (_A.api, _A.system), "never sent"),
        Row(_D.queued, _C.cancel, _D.cancelled, _A.api, "never sent"),
        Row(_D.queued, _C.pause, _D.paused, _BOTH, "the work that it belongs to must wait"),
        Row(_D.sent, _C.pause, _D.paused, _BOTH, "the same, and the minion has not confirmed it"),
        Row(_D.paused, _C.pause, _D.paused, _BOTH, "it stays paused for another reason"),
        Row(_D.paused, _C.continue_, _D.queued, _BOTH, "the work that it belongs to continues"),
        Row(_D.paused, _C.cancel, _D.cancelled, (_A.api, _A.system), "never sent"),
    ],
    failures=[_C.reject, _C.expire, _C.forgotten, _C.restored],
)

OPEN = tuple(state for state in Delivery if not MACHINE.is_final(state))
#: States in which the minion may be at work on it.
UNDER_WAY = (Delivery.sent, Delivery.received, Delivery.running)
