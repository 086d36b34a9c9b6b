"""The life cycle of a job in one agent process, as a literal table."""

from __future__ import annotations

from enum import Enum

from catena.core.fsm import Actor, Kind, Machine, Row


class Stage(str, Enum):
    """Stage of a job on this minion."""

    queued = "queued"  #: durable; waits in the queue
    starting = "starting"  #: left the queue; no process has been requested
    postponed = "postponed"  #: keeps its place until an obstacle has passed
    forking = "forking"  #: a process was requested; it is not known yet
    running = "running"  #: its process is known
    stopping = "stopping"  #: killed; the end of its process has not been seen
    owed = "owed"  #: its outcome is known, but not durable
    returned = "returned"  #: its return is durable; the master has not stored it
    stored = "stored"  #: the master has stored the return


class JobEvent(str, Enum):
    """Event in the life of a job."""

    start = "start"
    fork = "fork"
    assign = "assign"
    attach = "attach"
    postpone = "postpone"
    retry = "retry"
    requeue = "requeue"
    kill = "kill"
    outcome = "outcome"
    fail = "fail"
    keep = "keep"
    store = "store"


_S, _C, _A = Stage, JobEvent, Actor
#: Stages of a job whose outcome is unknown.
OPEN = (_S.queued, _S.starting, _S.postponed, _S.forking, _S.running, _S.stopping)

#: Why a job is postponed.
_OBSTACLE = "the disk is full, the master is away, or its processes end"

MACHINE: Machine[Stage, JobEvent] = Machine(
    "job on a minion",
    {
        _S.queued: Kind.wait,
        _S.starting: Kind.working,
        _S.postponed: Kind.wait,
        _S.forking: Kind.working,
        _S.running: Kind.working,
        _S.stopping: Kind.working,
        _S.owed: Kind.wait,
        _S.returned: Kind.wait,
        _S.stored: Kind.final,
    },
    (_S.queued,),
    [
        Row(_S.queued, _C.start, _S.starting, _A.agent, "the queue chose it"),
        Row(_S.queued, _C.attach, _S.running, _A.agent, "an earlier agent's process runs it"),
        Row(_S.starting, _C.fork, _S.forking, _A.agent, "the template was asked"),
        Row(_S.starting, _C.assign, _S.running, _A.agent, "a warm process took it"),
        Row(_S.forking, _C.attach, _S.running, _A.agent, "its process was forked"),
        Row(_S.running, _C.attach, _S.running, _A.agent, "another process had claimed it"),
        Row(_S.stopping, _C.attach, _S.stopping, _A.agent, "its process is killed, too"),
        Row(_S.postponed, _C.retry, _S.starting, _A.agent, "the obstacle may have passed"),
        *(
            Row(state, _C.postpone, _S.postponed, _A.agent, _OBSTACLE)
            for state in (_S.starting, _S.forking, _S.running)
        ),
        *(
            Row(state, _C.requeue, _S.queued, _A.agent, "its process is gone; it begins again")
            for state in (_S.queued, _S.starting, _S.forking, _S.running)
        ),
        *(
            Row(state, _C.kill, _S.stopping, (_A.api, _A.agent), "cancelled, or over a limit")
            for state in (_S.forking, _S.running, _S.stopping)
        ),
        *(
            Row(state, _C.outcome, _S.owed, _A.agent, "there is a return")
            for state in (_S.queued, _S.forking, _S.running, _S.stopping)
        ),
        *(
            Row(state, _C.fail, _S.owed, _A.agent, "cancelled, killed, too late or interrupted")
            for state in OPEN
        ),
        Row(_S.owed, _C.keep, _S.returned, _A.agent, "the return is durable"),
        Row(_S.owed, _C.store, _S.stored, _A.system, "an earlier agent had sent the return"),
        Row(_S.returned, _C.store, _S.stored, _A.system, "the master has it"),
    ],
    failures=(_C.fail,),
    unfailing={
        _S.owed: "kept again every second until the disk has space",
        _S.returned: "sent again until the master has stored it",
    },
)
#: Stages that `JobRunner.tick` looks after.
ATTENDED = (_S.postponed, _S.forking, _S.running, _S.stopping, _S.owed)
