"""Words of many minions, folded: to the same end as taken one by one."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.fsm import Actor
from catena.core.job import JobReturn
from catena.master.jobs.delivery import MACHINE, OPEN, Delivery, DeliveryEvent
from catena.master.jobs.reports import Said, Word, fold
from catena.master.jobs.rows import Standing

JID = "20260301120000000000"


def ret(value: Any = True) -> JobReturn:
    return JobReturn(JID, "test.ping", (), True, 0, value, 1.0, 0.1)


def standing(**states: str) -> dict[Any, Any]:
    return {
        (JID, minion): Standing(Delivery(state), plain=True, returned=False)
        for minion, state in states.items()
    }


def test_a_delivery_that_moves_twice_is_stored_once() -> None:
    words = [Word("a", JID), Word("b", JID), Word("a", JID, ret())]
    folded = fold(words, standing(a="queued", b="sent"))
    assert folded is not None
    assert [(m.minion, m.seen, m.event) for m in folded.moves] == [
        ("a", Delivery.queued, DeliveryEvent.ret),
        ("b", Delivery.sent, DeliveryEvent.receive),
    ]
    assert [new.minion for new in folded.returns] == ["a"]


@pytest.mark.parametrize("first", OPEN)
def test_last_report_of_several_leads_to_the_same_state_as_all_of_them(first: Delivery) -> None:
    reports = (DeliveryEvent.receive, DeliveryEvent.ret)
    for one in reports:
        between = MACHINE.after(first, one, Actor.agent)
        if between is None:
            continue
        for last in reports:
            after = MACHINE.after(between, last, Actor.agent)
            assert after in (None, MACHINE.after(first, last, Actor.agent))


def test_watchers_get_the_return_before_the_end() -> None:
    folded = fold([Word("a", JID), Word("a", JID, ret())], standing(a="sent"))
    assert folded is not None
    shown = [(item.type, getattr(item, "state", None)) for item in map(Said.item, folded.said)]
    assert shown == [("delivery", "received"), ("return", None), ("delivery", "done")]


def test_repeated_return_is_stored_once() -> None:
    words = [Word("a", JID, ret(1)), Word("a", JID, ret(2))]
    folded = fold(words, standing(a="sent"))
    assert folded is not None
    assert [new.ret.value for new in folded.returns] == [1]


def test_a_return_after_the_end_of_its_delivery_is_late_and_moves_nothing() -> None:
    folded = fold([Word("a", JID, ret())], standing(a="expired"))
    assert folded is not None
    assert [new.late for new in folded.returns] == [True]
    assert folded.moves == []


def test_complex_report_is_left_for_separate_processing() -> None:
    special = {(JID, "a"): Standing(Delivery.sent, plain=False, returned=False)}
    for rows in ({}, special):
        assert fold([Word("a", JID)], rows) is None
