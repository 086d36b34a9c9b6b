"""Merged reports of many minions: the same result as of reports processed one by one."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.fsm import Actor
from catena.core.job import JobReturn
from catena.master.jobs.delivery import MACHINE, OPEN, Delivery, DeliveryEvent
from catena.master.jobs.reports import DeliveryUpdate, JobReport, merge
from catena.master.jobs.rows import DeliverySnapshot

JID = "20260301120000000000"


def ret(value: Any = True) -> JobReturn:
    return JobReturn(JID, "test.ping", (), True, 0, value, 1.0, 0.1)


def snapshots(**states: str) -> dict[Any, Any]:
    return {
        (JID, minion): DeliverySnapshot(Delivery(state), is_plain=True, has_return=False)
        for minion, state in states.items()
    }


def test_delivery_that_moves_twice_is_stored_once() -> None:
    reports = [JobReport("a", JID), JobReport("b", JID), JobReport("a", JID, ret())]
    merged = merge(reports, snapshots(a="queued", b="sent"))
    assert merged is not None
    assert [(m.minion, m.seen, m.event) for m in merged.moves] == [
        ("a", Delivery.queued, DeliveryEvent.ret),
        ("b", Delivery.sent, DeliveryEvent.receive),
    ]
    assert [new.minion for new in merged.returns] == ["a"]


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
    merged = merge([JobReport("a", JID), JobReport("a", JID, ret())], snapshots(a="sent"))
    assert merged is not None
    shown = [
        (item.type, getattr(item, "state", None))
        for item in map(DeliveryUpdate.item, merged.updates)
    ]
    assert shown == [("delivery", "received"), ("return", None), ("delivery", "done")]


def test_repeated_return_is_stored_once() -> None:
    reports = [JobReport("a", JID, ret(1)), JobReport("a", JID, ret(2))]
    merged = merge(reports, snapshots(a="sent"))
    assert merged is not None
    assert [new.ret.value for new in merged.returns] == [1]


def test_return_after_the_end_of_its_delivery_is_late_and_moves_nothing() -> None:
    merged = merge([JobReport("a", JID, ret())], snapshots(a="expired"))
    assert merged is not None
    assert [new.late for new in merged.returns] == [True]
    assert merged.moves == []


def test_complex_report_is_left_for_separate_processing() -> None:
    special = {(JID, "a"): DeliverySnapshot(Delivery.sent, is_plain=False, has_return=False)}
    for rows in ({}, special):
        assert merge([JobReport("a", JID)], rows) is None
