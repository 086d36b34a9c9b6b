"""The life cycle of a greeting, and the common status of each of its states."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row
from catena.master.executions.ledger import LifeCycle
from catena.master.executions.lifecycle import ExecutionState, check_statuses
from catena.master.store.execution_tables import RUNS


class GreetingState(StrEnum):
    """How far a greeting is; stored as is."""

    waiting = "waiting"
    said = "said"


class GreetingEvent(StrEnum):
    """What can happen to a greeting."""

    say = "say"


_S = GreetingState

GREETING = Machine(
    "greeting",
    {_S.waiting: Kind.wait, _S.said: Kind.final},
    [_S.waiting],
    [Row(_S.waiting, GreetingEvent.say, _S.said, Actor.agent, "Its minion came up.")],
    unfailing={_S.waiting: "It waits until its minion comes up."},
)
STATUSES = check_statuses(GREETING, {_S.waiting: ExecutionState.NEW, _S.said: ExecutionState.DONE})
CYCLE = LifeCycle("run", RUNS, GREETING, STATUSES)
