"""Words of many minions, folded: to the same end as taken one by one."""

from __future__ import annotations

from typing import Any

from catena.core.job import JobReturn
from catena.master.jobs.delivery import Delivery
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
    assert [(m.minion, m.seen, m.target) for m in folded.moves] == [
        ("a", Delivery.queued, Delivery.done),
        ("b", Delivery.sent, Delivery.received),
    ]
    assert [new.minion for new in folded.returns] == ["a"]


def test_watchers_get_the_return_before_the_end() -> None:
    folded = fold([Word("a", JID), Word("a", JID, ret())], standing(a="sent"))
    assert folded is not None
    shown = [(item["type"], item.get("state")) for item in map(Said.item, folded.said)]
    assert shown == [("delivery", "received"), ("return", None), ("delivery", "done")]


def test_a_return_that_comes_again_is_stored_once() -> None:
    words = [Word("a", JID, ret(1)), Word("a", JID, ret(2))]
    folded = fold(words, standing(a="sent"))
    assert folded is not None
    assert [new.ret.value for new in folded.returns] == [1]


def test_a_return_after_the_end_of_its_delivery_is_late_and_moves_nothing() -> None:
    folded = fold([Word("a", JID, ret())], standing(a="expired"))
    assert folded is not None
    assert [new.late for new in folded.returns] == [True]
    assert folded.moves == []


def test_what_is_no_plain_step_is_left_to_be_taken_alone() -> None:
    special = {(JID, "a"): Standing(Delivery.sent, plain=False, returned=False)}
    for rows in ({}, special):
        assert fold([Word("a", JID)], rows) is None
