"""The life cycle of a delivery: one job on one minion."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row


class Delivery(StrEnum):
    """The state of a job on one minion."""

    held = "held"  #: waits for a free place in a batch
    queued = "queued"  #: stored, but not sent yet
    paused = "paused"  #: not sent until the work that it belongs to continues
    sent = "sent"  #: sent or about to be sent, but not confirmed by the minion
    received = "received"  #: durable on the minion
    running = "running"  #: the minion reported a step
    done = "done"  #: the return is stored
    rejected = "rejected"  #: the minion does not run the job and reports the reason
    expired = "expired"  #: not sent before its latest delivery time
    cancelled = "cancelled"  #: stopped before or during its run
    lost = "lost"  #: the minion had the job and no longer knows it


class DeliveryEvent(StrEnum):
    """The events of a delivery."""

    release = "release"
    pause = "pause"
    continue_ = "continue"
    send = "send"
    requeue = "requeue"
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
        Row(_D.held, _C.release, _D.queued, _A.system, "The batch has a free place."),
        Row(_D.queued, _C.send, _D.sent, _A.system, "It was sent on the connection."),
        Row(_D.sent, _C.send, _D.sent, _A.system, "It was resent on a new connection."),
        Row(_D.sent, _C.requeue, _D.queued, _A.system, "It could not be sent."),
        *(
            Row(state, cause, target, _A.agent, why)
            # A paused order may have been sent before its work was paused.
            for state in (_D.queued, _D.paused, _D.sent)
            for cause, target, why in (
                (_C.receive, _D.received, "The job is durable on the minion."),
                (_C.progress, _D.running, "The minion reported a step."),
                (_C.ret, _D.done, "The return is stored."),
                (_C.reject, _D.rejected, "The minion does not run it."),
                (_C.stopped, _D.cancelled, "The minion stopped it on request."),
            )
        ),
        Row(_D.received, _C.receive, _D.received, _A.agent, "The minion reported it again."),
        Row(_D.received, _C.progress, _D.running, _A.agent, "The minion reported a step."),
        Row(_D.received, _C.ret, _D.done, _A.agent, "The return is stored."),
        Row(_D.received, _C.reject, _D.rejected, _A.agent, "It expired in the minion's queue."),
        Row(_D.received, _C.stopped, _D.cancelled, _A.agent, "It was removed from the queue."),
        Row(_D.received, _C.forgotten, _D.lost, _A.agent, "A Hello no longer names it."),
        Row(_D.running, _C.progress, _D.running, _A.agent, "The minion reported a step."),
        Row(_D.running, _C.receive, _D.running, _A.agent, "The minion reported it again."),
        Row(_D.running, _C.ret, _D.done, _A.agent, "The return is stored."),
        Row(_D.running, _C.reject, _D.rejected, _A.agent, "The minion gave it up."),
        Row(_D.running, _C.stopped, _D.cancelled, _A.agent, "The minion stopped it on request."),
        Row(_D.running, _C.forgotten, _D.lost, _A.agent, "A Hello no longer names it."),
        *(
            Row(
                state,
                _C.restored,
                _D.lost,
                _A.system,
                "It may have run before the store was restored.",
            )
            for state in (_D.held, _D.queued, _D.paused, _D.sent)
        ),
        Row(_D.held, _C.expire, _D.expired, _A.system, "Its latest delivery time has passed."),
        Row(_D.queued, _C.expire, _D.expired, _A.system, "Its latest delivery time has passed."),
        Row(_D.held, _C.cancel, _D.cancelled, _BOTH, "It was never sent."),
        Row(_D.queued, _C.cancel, _D.cancelled, _A.api, "It was never sent."),
        Row(_D.queued, _C.pause, _D.paused, _BOTH, "The work that it belongs to must wait."),
        Row(_D.sent, _C.pause, _D.paused, _BOTH, "Its work must wait; it is not confirmed."),
        Row(_D.paused, _C.pause, _D.paused, _BOTH, "It stays paused for another reason."),
        Row(_D.paused, _C.continue_, _D.queued, _BOTH, "The work that it belongs to continues."),
        Row(_D.paused, _C.cancel, _D.cancelled, _BOTH, "It was never sent."),
    ],
    failures=[_C.reject, _C.expire, _C.forgotten, _C.restored],
)

#: States of deliveries that have not ended.
OPEN = tuple(state for state in Delivery if not MACHINE.is_final(state))
#: States in which the minion may be running the job.
UNDER_WAY = (Delivery.sent, Delivery.received, Delivery.running)
