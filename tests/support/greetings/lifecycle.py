"""The life cycle of a greeting, and the common status of each of its states."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row
from catena.master.executions.ledger import LifeCycle
from catena.master.executions.lifecycle import ExecutionState, ReferenceCycle, check_statuses
from catena.master.store.execution_tables import RUNS


class GreetingState(StrEnum):
    """How far a greeting is; stored as is."""

    asked = "asked"
    agreed = "agreed"
    waiting = "waiting"
    said = "said"
    dropped = "dropped"


class GreetingEvent(StrEnum):
    """What can happen to a greeting."""

    approve = "approve"
    begin = "begin"
    drop = "drop"
    say = "say"


_S, _E = GreetingState, GreetingEvent

GREETING = Machine(
    "greeting",
    {
        _S.asked: Kind.hold,
        _S.agreed: Kind.wait,
        _S.waiting: Kind.wait,
        _S.said: Kind.final,
        _S.dropped: Kind.final,
    },
    [_S.asked, _S.waiting],
    [
        Row(_S.asked, _E.approve, _S.agreed, Actor.api, "Enough people agreed."),
        Row(_S.agreed, _E.begin, _S.waiting, Actor.system, "Nothing else is in its way."),
        Row(_S.asked, _E.drop, _S.dropped, (Actor.api, Actor.system), "Nobody agreed."),
        Row(_S.waiting, _E.say, _S.said, Actor.agent, "Its minion came up."),
    ],
    unfailing={
        _S.agreed: "It begins in the same transaction.",
        _S.waiting: "It waits until its minion comes up.",
    },
)
STATUSES = check_statuses(
    GREETING,
    {
        _S.asked: ExecutionState.PENDING_APPROVE,
        _S.agreed: ExecutionState.PENDING_SCHEDULE,
        _S.waiting: ExecutionState.NEW,
        _S.said: ExecutionState.DONE,
        _S.dropped: ExecutionState.CANCELLED,
    },
)
CYCLE = LifeCycle("run", RUNS, GREETING, STATUSES)
LIFE_CYCLES = (ReferenceCycle("Greetings", "A greeting is a text for one minion.", GREETING),)
