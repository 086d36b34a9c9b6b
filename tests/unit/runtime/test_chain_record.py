from __future__ import annotations

from typing import Any

import pytest

from catena.runtime.chain_record import ACTION, CHAIN, ActionState, HostChainState, fold
from catena.runtime.journal import JournalDamagedError

BOOT = {"boot_id": "b1", "session": "s1"}


def record(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **BOOT, **fields}


def test_empty_journal_is_a_received_chain() -> None:
    view = fold([])
    assert (view.state, view.chunk) == (HostChainState.received, 0)
    assert view.action(9).state is ActionState.pending


def test_records_move_chain_and_actions() -> None:
    view = fold(
        [
            record("received"),
            record("chunk", chunk=1),
            record("begin", action=1),
            record("end", action=1, key="k1", ret={"result": True}, outcome="done"),
            record("begin", action=2),
            record("armed", action=2, key="k2", ret={"result": True}, delay_seconds=60),
            record("chunk_end", chunk=1, outcome="waiting"),
            record("issued"),
        ]
    )
    assert view.state is HostChainState.waiting
    assert view.ended == {1: "waiting"}
    assert view.issued == 1
    assert view.action(1).state is ActionState.done
    assert (view.action(2).state, view.action(2).delay_seconds) == (ActionState.armed, 60)


def test_first_begin_says_in_which_boot_an_action_was_asked_for() -> None:
    view = fold(
        [
            record("chunk", chunk=1),
            record("begin", action=1),
            {**record("begin", action=1), "boot_id": "b2", "session": "s2"},
        ]
    )
    action = view.action(1)
    assert (action.attempt, action.boot_id, action.session) == (2, "b1", "s1")


@pytest.mark.parametrize(
    "records",
    [
        [record("surprise")],
        [record("chunk_end", chunk=1, outcome="done")],
        [record("chunk", chunk=1), record("end", action=1, key="", ret={}, outcome="done")],
        [record("chunk", chunk=1), record("begin")],
        [record("chunk", chunk=1), record("chunk", chunk=2)],
        [record("closed", outcome="cancelled", reason=""), record("chunk", chunk=1)],
    ],
)
def test_records_that_make_no_sense_are_damage(records: list[dict[str, Any]]) -> None:
    with pytest.raises(JournalDamagedError):
        fold(records)


def test_ended_chain_or_action_never_changes_its_state() -> None:
    assert {s for s in HostChainState if CHAIN.is_final(s)} == {
        HostChainState.done,
        HostChainState.failed,
        HostChainState.interrupted,
        HostChainState.cancelled,
    }
    assert {s for s in ActionState if ACTION.is_final(s)} == {
        ActionState.done,
        ActionState.failed,
        ActionState.interrupted,
    }
