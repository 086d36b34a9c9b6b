from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.transport.reconnect import (
    DisconnectCause,
    LinkAction,
    LinkPhase,
    Reconnect,
    ReconnectRules,
)

RULES = ReconnectRules()


def policy(chance: float = 0.5, now: float = 100.0, rules: ReconnectRules = RULES) -> Reconnect:
    return Reconnect(rules, lambda: chance, now)


def up(found: Reconnect, now: float = 100.0) -> Reconnect:
    found.tried(now)
    found.came_up(now)
    return found


def test_the_first_attempt_is_immediate() -> None:
    found = policy()
    assert found.due(100.0) is LinkAction.connect
    assert found.deadline() == 100.0


def test_an_attempt_has_an_end() -> None:
    found = policy()
    found.tried(100.0)
    found.found()
    assert found.due(100.0 + RULES.attempt - 0.1) is LinkAction.nothing
    assert found.due(100.0 + RULES.attempt) is LinkAction.give_up


def test_a_name_without_an_address_is_given_up_early_but_later_each_time() -> None:
    found = policy()
    ends = []
    for _ in range(4):
        found.tried(100.0)
        ends.append(found.deadline() - 100.0)
        found.lost(100.0, DisconnectCause.failed)
    assert ends == [3.0, 6.0, 12.0, 12.0]


def test_waits_grow_to_the_largest_and_no_further() -> None:
    found = policy(chance=0.999999)
    waits = [round(found.lost(0.0, DisconnectCause.failed)) for _ in range(9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(st.floats(0, 0.999), st.integers(0, 2000))
def test_a_wait_is_random_but_never_less_than_half(chance: float, failures: int) -> None:
    found = policy(chance)
    found.failures = failures
    wait = found.lost(0.0, DisconnectCause.failed)
    full = min(RULES.largest, 2.0 ** min(failures, 10))
    assert full / 2 <= wait <= full


def test_two_minions_do_not_come_back_together() -> None:
    for cause in (DisconnectCause.failed, DisconnectCause.broken, DisconnectCause.herd):
        assert policy(0.1).lost(0.0, cause) != policy(0.9).lost(0.0, cause)


def test_a_herd_is_spread_over_its_time() -> None:
    assert policy(0.0).lost(0.0, DisconnectCause.herd) == 0.0
    assert policy(0.99).lost(0.0, DisconnectCause.herd) == pytest.approx(9.9)


def test_a_broken_connection_comes_back_soon_and_then_backs_off() -> None:
    found = policy(0.5)
    assert found.lost(0.0, DisconnectCause.broken) == RULES.broken_spread / 2
    assert found.lost(0.0, DisconnectCause.failed) == 1.5


def test_a_better_connection_is_made_at_once() -> None:
    found = up(policy())
    assert found.lost(200.0, DisconnectCause.renewed) == 0.0
    assert found.due(200.0) is LinkAction.connect


def test_what_the_master_asks_for_is_waited_and_spread() -> None:
    assert policy(0.0).lost(0.0, DisconnectCause.told, at_least=10.0) == 10.0
    assert policy(0.8).lost(0.0, DisconnectCause.told, at_least=10.0) == 12.0
    found = policy()
    for _ in range(5):
        found.lost(0.0, DisconnectCause.told, at_least=1.0)
    assert found.failures == 0


def test_being_taken_forgets_earlier_failures_and_being_refused_does_not() -> None:
    found = policy()
    found.lost(0.0, DisconnectCause.failed)
    up(found)
    assert found.failures == 1
    found.settled()
    assert found.failures == 0


def test_pings_are_due_by_their_interval() -> None:
    found = up(policy())
    assert found.phase is LinkPhase.up
    assert found.due(114.9) is LinkAction.nothing
    assert found.due(115.0) is LinkAction.ping
    found.pinged(115.0)
    assert found.due(115.0) is LinkAction.nothing


def test_three_pings_without_a_sign_end_it() -> None:
    found = up(policy())
    for now in (115.0, 130.0, 145.0):
        assert found.due(now) is LinkAction.ping
        found.pinged(now)
    assert found.due(159.9) is LinkAction.nothing
    assert found.due(160.0) is LinkAction.silent


def test_any_sign_counts() -> None:
    found = up(policy())
    for now in range(115, 1000, 15):
        assert found.due(now) is LinkAction.ping
        found.pinged(now)
        if now % 2:
            found.heard()


def test_a_host_that_slept_asks_before_it_gives_up() -> None:
    found = up(policy())
    assert found.due(100.0 + 3600) is LinkAction.ping


def test_traffic_keys_are_replaced_within_a_day_each_minion_at_its_own_time() -> None:
    assert up(policy(0.0)).due(100.0 + 24 * 3600) is LinkAction.aged
    early = up(policy(0.5))
    assert early.due(100.0 + 23.5 * 3600) is LinkAction.aged
    assert early.due(100.0 + 23.4 * 3600) is LinkAction.ping
    assert up(policy(rules=replace(RULES, key_age=1.0, key_age_spread=0.0))).deadline() == 101.0
