"""Writes the SLS of a preview, which runs the actions of a chain in test mode without reboots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catena.master.chains import chunk_yaml
from catena.master.chains.actions import ActionType, title
from catena.master.chains.render import STATE_APPLY, PlannedAction, call_of, module_run

#: Maximum length of the title in a state's id, characters; the position makes ids unique.
_TITLE_CHARACTERS = 120


def preview(plans: Sequence[PlannedAction], positions: Mapping[int, int]) -> str:
    """Return the text of an SLS that shows what *plans* would change on one minion.

    Actions that apply SLS run with test=True. The others (a reboot, a call) are only named,
    because functions have no test mode. A call of a function that the minion does not have fails.
    No state requires another one, so one failure does not hide the others.

    Args:
        plans: the actions of the minion, in order.
        positions: the sort order of each action, by its id, as `chain show` numbers them.
    """
    return "".join(_text(action, positions[action.id]) for action in plans)


def _text(action: PlannedAction, position: int) -> str:
    name = f"action {position}, {title(action.plan)[:_TITLE_CHARACTERS]}"
    text = chunk_yaml.write({name: _state(action)})
    if action.plan.type is not ActionType.call:
        return text
    function = action.plan.data.fun
    why = f"Module function {function} is not available on this minion"
    missing = {"test.fail_without_changes": [{"name": why}, {"comment": why}]}
    # The name of a function has letters, digits, dots and underscores only (`actions.check`).
    return (
        f"{{%- if '{function}' in salt %}}\n{text}{{%- else %}}\n"
        f"{chunk_yaml.write({name: missing})}{{%- endif %}}\n"
    )


def _state(action: PlannedAction) -> dict[str, Any]:
    name, args = call_of(action)
    # Only state.apply is known to obey test mode; a `call` may name it with other arguments.
    if action.plan.type is ActionType.call or name != STATE_APPLY:
        return {"test.nop": [{"name": f"would do: {title(action.plan)}"}]}
    return module_run(name, {**args, "kwargs": {**args.get("kwargs", {}), "test": True}})
