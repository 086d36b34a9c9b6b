"""The life cycle of a host that is reached over SSH, as a literal table."""

from __future__ import annotations

from enum import StrEnum

from catena.core.fsm import Actor, Kind, Machine, Row


class HostState(StrEnum):
    """The states of a host; the values are stored."""

    resting = "resting"  #: there is no work for the host now
    wanted = "wanted"  #: there is work; a visit begins when a slot is free
    visited = "visited"  #: a process of this master or of another one visits it
    away = "away"  #: it was not reached, or the connection was lost; visits are retried
    refused = "refused"  #: it may be another host than before; a person must check
    unfit = "unfit"  #: it was reached but can't be used


class HostEvent(StrEnum):
    """The events of a host."""

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
    (_E.leave, _S.resting, _A.agent, "its work is done, or continues without a connection"),
    (_E.lose, _S.away, (_A.agent, _A.system), "not reached, lost, or its master process died"),
    (_E.refuse, _S.refused, _A.agent, "its host key or its machine id has changed"),
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
        Row(_S.resting, _E.want, _S.wanted, _A.system, "a job, a chain or a first visit"),
        Row(_S.unfit, _E.want, _S.wanted, _A.system, "a job or a visit is requested again"),
        *(
            Row(state, _E.visit, _S.visited, _A.system, "a slot is free and a visit is due")
            for state in (_S.resting, _S.wanted, _S.away, _S.refused, _S.unfit)
        ),
        *(Row(_S.visited, event, target, by, why) for event, target, by, why in _ENDS),
        *(
            Row(state, _E.rest, _S.resting, _A.system, "there is no work for it any more")
            for state in (_S.wanted, _S.away, _S.refused, _S.unfit)
        ),
    ],
    failures=[_E.lose, _E.refuse, _E.fail],
    unfailing={_S.wanted: "it waits for a free slot of the master; only a visit can fail"},
)
