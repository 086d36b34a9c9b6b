"""What a chain would do: every action in test mode, nothing rebooted, as an ordinary job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catena.master.chains import chunk_yaml
from catena.master.chains.actions import ActionType, title
from catena.master.chains.render import PlannedAction, call_of, module_run


def preview(chain_id: int, plans: Sequence[PlannedAction]) -> str:
    """Return the text of an SLS that shows what *plans* would change on one minion.

    Actions that apply SLS do so with test=True; the others (a reboot, a call) are only named,
    because no function can be asked what it would do. No state requires another, so that one
    fault does not hide the rest.
    """
    states: dict[str, Any] = {}
    for action in plans:
        states[f"mgr_preview_{chain_id}_action_{action.id}"] = _state(action)
    return chunk_yaml.write(states)


def _state(action: PlannedAction) -> dict[str, Any]:
    if action.plan.type in (ActionType.reboot, ActionType.call):
        return {"test.nop": [{"name": f"would do: {title(action.plan)}"}]}
    name, args = call_of(action)
    return module_run(name, {**args, "kwargs": {**args.get("kwargs", {}), "test": True}})
