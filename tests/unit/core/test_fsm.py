from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from catena.core.errors import InvalidStateError
from catena.core.fsm import Actor, Kind, Machine, Row, TableError


class S(StrEnum):
    new = "new"
    run = "run"
    done = "done"


class E(StrEnum):
    start = "start"
    end = "end"


STATES = {S.new: Kind.wait, S.run: Kind.working, S.done: Kind.final}
START = Row(S.new, E.start, S.run, Actor.system, "it was claimed")
END = Row(S.run, E.end, S.done, Actor.agent, "it returned")


def machine(*rows: Row[S, E], states: Any = None) -> Machine[S, E]:
    return Machine("job", states or STATES, [S.new], rows)


def test_events_lead_from_state_to_state() -> None:
    life = machine(START, END)
    assert life.next(S.new, E.start) is S.run
    assert life.next(S.run, E.end) is S.done
    assert life.is_final(S.done)
    assert not life.is_final(S.run)


def test_an_event_without_a_row_is_refused_with_names() -> None:
    life = machine(START, END)
    assert not life.allows(S.done, E.start)
    with pytest.raises(InvalidStateError, match="job: 'start' can't happen while 'done'"):
        life.next(S.done, E.start)


def test_two_rows_for_one_event_contradict() -> None:
    with pytest.raises(TableError, match="two rows for new on start"):
        machine(START, START, END)


def test_a_state_that_nothing_reaches_is_refused() -> None:
    states = {S.new: Kind.wait, S.run: Kind.final, S.done: Kind.final}
    with pytest.raises(TableError, match="nothing leads to done"):
        machine(START, states=states)


def test_a_way_out_of_a_final_state_is_refused() -> None:
    again = Row(S.done, E.start, S.run, Actor.api, "retry")
    with pytest.raises(TableError, match="done is final"):
        machine(START, END, again)


def test_a_state_without_a_way_out_must_be_final() -> None:
    with pytest.raises(TableError, match="done is wait"):
        machine(START, END, states={**STATES, S.done: Kind.wait})


def test_the_diagram_shows_every_row() -> None:
    text = machine(START, END).mermaid()
    assert "[*] --> new" in text
    assert "new --> run: start (system)" in text
    assert "run --> done: end (agent)" in text
