"""The life of a host that SSH reaches, as the master sees it, as a literal table."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row


class HostState(StrEnum):
    """Where a host stands; stored as is."""

    resting = "resting"  #: nothing is to be done there now
    wanted = "wanted"  #: something is to be done; a visit begins when there is a free place
    visited = "visited"  #: a process of this master, or of another one, is with it
    away = "away"  #: it could not be reached, or was lost; visited again by itself
    refused = "refused"  #: a person must say whether it is the host that it was
    unfit = "unfit"  #: reached, but it can't be used as it is


class HostEvent(StrEnum):
    """What can happen to a host."""

    want = "want"
    visit = "visit"
    leave = "leave"
    lose = "lose"
    refuse = "refuse"
    fail = "fail"
    rest = "rest"


_S, _E, _A = HostState, HostEvent, Actor

#: How a visit can end: event, state of the host afterwards, who causes it, why.
_ENDS = (
    (_E.leave, _S.resting, _A.agent, "what was to be done there is done, or goes on without us"),
    (_E.lose, _S.away, (_A.agent, _A.system), "not reached, lost, or its master process died"),
    (_E.refuse, _S.refused, _A.agent, "another host key or another machine than before"),
    (_E.fail, _S.unfit, _A.agent, "no login, no Python, a full disk or an unusable job"),
)

HOST: Machine[HostState, HostEvent] = Machine(
    "ssh host",
    {
        _S.resting: Kind.stable,
        _S.wanted: Kind.wait,
        _S.visited: Kind.working,
        _S.away: Kind.failure,
        _S.refused: Kind.failure,
        _S.unfit: Kind.failure,
    },
    (_S.wanted,),
    [
        Row(_S.resting, _E.want, _S.wanted, _A.system, "a job, a chain or a first look"),
        Row(_S.unfit, _E.want, _S.wanted, _A.system, "a job or a look is asked for again"),
        *(
            Row(state, _E.visit, _S.visited, _A.system, "a place is free and its time has come")
            for state in (_S.resting, _S.wanted, _S.away, _S.refused, _S.unfit)
        ),
        *(Row(_S.visited, event, target, by, why) for event, target, by, why in _ENDS),
        *(
            Row(state, _E.rest, _S.resting, _A.system, "nothing is to be done there any more")
            for state in (_S.wanted, _S.away, _S.refused, _S.unfit)
        ),
    ],
    failures=[_E.lose, _E.refuse, _E.fail],
    unfailing={_S.wanted: "it waits for a free place of the master; only a visit can fail"},
)
