"""A misspelled `name` is reported for every state."""

from __future__ import annotations

import pytest

from catena.runtime.session import state_registry
from catena.states.compiler.call import Callees, _slips, argument_faults
from catena.states.compiler.model import Low
from tests.unit.states.conftest import MakeWorld

STATES = [name for name in state_registry().names() if not name.endswith("mod_aggregate")]


@pytest.mark.parametrize(
    "key", ["naem", "nmae", "anme", "nam", "nme", "ame", "nname", "namee", "mame", "Name", "NAME"]
)
def test_typo_of_name_is_reported_with_its_line(world: MakeWorld, key: str) -> None:
    (row,) = world(f"a:\n  test.nop:\n  - {key}: u\n").ran().values()
    (warning,) = row["warnings"]
    told = f"test.nop takes no argument '{key}'; did you mean 'name'?"
    assert warning.startswith(told)
    assert "salt://t.sls:3" in warning


@pytest.mark.parametrize("key", ["uname", "same", "named", "m_name", "fname", "mean", "comment"])
def test_other_arguments_are_no_slips_of_name(world: MakeWorld, key: str) -> None:
    (row,) = world(f"a:\n  test.nop:\n  - {key}: u\n").ran().values()
    assert "warnings" not in row


def test_state_with_a_name_may_have_an_argument_that_looks_like_it(world: MakeWorld) -> None:
    (row,) = world("a:\n  test.nop:\n  - name: b\n  - naem: u\n").ran().values()
    assert "warnings" not in row


@pytest.mark.parametrize("name", STATES)
def test_typo_of_name_is_reported_for_every_state(name: str) -> None:
    state, _, fun = name.partition(".")
    callees = Callees(state_registry())
    low = Low(state, fun, "u", "u", "t", "base", 1, {"naem": "v"})
    callee = callees.get(state, fun)
    assert callee is not None
    told = _slips(low, callee, ()) if callee.open else argument_faults(callees, [low])
    (text,) = told
    assert "did you mean 'name'?" in text
