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


def test_first_connection_attempt_is_immediate() -> None:
    found = policy()
    assert found.due(100.0) is LinkAction.connect
    assert found.deadline() == 100.0


def test_connection_attempt_is_given_up_after_its_limit() -> None:
    found = policy()
    found.tried(100.0)
    found.found()
    assert found.due(100.0 + RULES.attempt - 0.1) is LinkAction.nothing
    assert found.due(100.0 + RULES.attempt) is LinkAction.give_up


def test_name_without_an_address_is_given_up_later_after_each_failure() -> None:
    found = policy()
    ends = []
    for _ in range(4):
        found.tried(100.0)
        ends.append(found.deadline() - 100.0)
        found.lost(100.0, DisconnectCause.failed)
    assert ends == [3.0, 6.0, 12.0, 12.0]


def test_waits_between_attempts_double_up_to_the_largest() -> None:
    found = policy(chance=0.999999)
    waits = [round(found.lost(0.0, DisconnectCause.failed)) for _ in range(9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(st.floats(0, 0.999), st.integers(0, 2000))
def test_wait_is_random_between_half_and_the_full_time(chance: float, failures: int) -> None:
    found = policy(chance)
    found.failures = failures
    wait = found.lost(0.0, DisconnectCause.failed)
    full = min(RULES.largest, 2.0 ** min(failures, 10))
    assert full / 2 <= wait <= full


def test_reconnect_times_of_two_minions_differ() -> None:
    for cause in (DisconnectCause.failed, DisconnectCause.broken, DisconnectCause.herd):
        assert policy(0.1).lost(0.0, cause) != policy(0.9).lost(0.0, cause)


def test_reconnects_after_a_stop_of_the_master_are_spread() -> None:
    assert policy(0.0).lost(0.0, DisconnectCause.herd) == 0.0
    assert policy(0.99).lost(0.0, DisconnectCause.herd) == pytest.approx(9.9)


def test_broken_connection_is_retried_soon_and_then_backs_off() -> None:
    found = policy(0.5)
    assert found.lost(0.0, DisconnectCause.broken) == RULES.broken_spread / 2
    assert found.lost(0.0, DisconnectCause.failed) == 1.5


def test_renewed_connection_is_attempted_at_once() -> None:
    found = up(policy())
    assert found.lost(200.0, DisconnectCause.renewed) == 0.0
    assert found.due(200.0) is LinkAction.connect


def test_wait_requested_by_the_master_is_kept_and_spread() -> None:
    assert policy(0.0).lost(0.0, DisconnectCause.told, at_least=10.0) == 10.0
    assert policy(0.8).lost(0.0, DisconnectCause.told, at_least=10.0) == 12.0
    found = policy()
    for _ in range(5):
        found.lost(0.0, DisconnectCause.told, at_least=1.0)
    assert found.failures == 0


def test_failures_are_reset_by_acceptance_and_not_by_connecting() -> None:
    found = policy()
    found.lost(0.0, DisconnectCause.failed)
    up(found)
    assert found.failures == 1
    found.settled()
    assert found.failures == 0


def test_ping_is_due_after_its_interval() -> None:
    found = up(policy())
    assert found.phase is LinkPhase.up
    assert found.due(114.9) is LinkAction.nothing
    assert found.due(115.0) is LinkAction.ping
    found.pinged(115.0)
    assert found.due(115.0) is LinkAction.nothing


def test_connection_is_silent_after_three_unanswered_pings() -> None:
    found = up(policy())
    for now in (115.0, 130.0, 145.0):
        assert found.due(now) is LinkAction.ping
        found.pinged(now)
    assert found.due(159.9) is LinkAction.nothing
    assert found.due(160.0) is LinkAction.silent


def test_any_message_counts_as_a_sign_of_life() -> None:
    found = up(policy())
    for now in range(115, 1000, 15):
        assert found.due(now) is LinkAction.ping
        found.pinged(now)
        if now % 2:
            found.heard()


def test_host_that_was_suspended_pings_before_it_gives_up() -> None:
    found = up(policy())
    assert found.due(100.0 + 3600) is LinkAction.ping


def test_traffic_keys_are_replaced_within_a_day_at_a_spread_time() -> None:
    assert up(policy(0.0)).due(100.0 + 24 * 3600) is LinkAction.aged
    early = up(policy(0.5))
    assert early.due(100.0 + 23.5 * 3600) is LinkAction.aged
    assert early.due(100.0 + 23.4 * 3600) is LinkAction.ping
    assert up(policy(rules=replace(RULES, key_age=1.0, key_age_spread=0.0))).deadline() == 101.0
