"""A preview runs only functions that obey test mode."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from catena.master.chains import preview
from catena.master.chains.actions import ActionType
from tests.unit.master.chains.plans import planned

#: Data of an action of each kind.
DATA: dict[str, dict[str, Any]] = {
    "script": {"sha256": "0" * 64},
    "cmd": {"cmd": "true"},
    "apply": {"mods": ["web"]},
    "highstate": {},
    "install": {"packages": [["vim", ""]]},
    "upgrade": {"packages": [["vim", ""]]},
    "remove": {"packages": [["vim", ""]]},
    "upgrade_agent": {"version": "1.2.3"},
    "reboot": {},
    "call": {"fun": "state.apply", "kwargs": {"mods": "web"}},
}


def state_of(kind: str) -> dict[str, Any]:
    """Return the state of a previewed action, without the branch for a missing function."""
    text = preview.preview([planned(1, kind, **DATA[kind])], {1: 1})
    lines = text.partition("{%- else %}")[0].splitlines()
    (state,) = yaml.safe_load("\n".join(each for each in lines if "{%" not in each)).values()
    assert isinstance(state, dict)
    return state


@pytest.mark.parametrize("kind", list(ActionType))
def test_preview_runs_actions_in_test_mode_or_only_names_them(kind: ActionType) -> None:
    ((fun, arguments),) = state_of(kind.value).items()
    if kind in (ActionType.reboot, ActionType.call):
        assert (fun, arguments[0]["name"][:9]) == ("test.nop", "would do:")
    else:
        given = {key: value for each in arguments for key, value in each.items()}
        assert (given["name"], given["kwargs"]["test"]) == ("state.apply", True)


def test_preview_only_names_an_action_of_another_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preview, "call_of", lambda _: ("cmd.run", {"cmd": "touch /x"}))
    assert list(state_of("cmd")) == ["test.nop"]
