"""state.disable and related functions: SLS files, or the highstate, that must not run here.

As in Salt, the grain `state_runs_disabled` stores them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Union

from catena.core.context import Context
from catena.core.plugins import function
from catena.states.compiler.api import sls_list

#: The name that means the highstate.
HIGHSTATE = "highstate"
_GRAIN = "state_runs_disabled"


def refusals(context: Context, mods: Union[str, Sequence[str]]) -> List[str]:
    """Return one error per disabled name in *mods*."""
    known = list_disabled(context)
    return [
        f'The state file "{name}" is currently disabled, to re-enable, run state.enable {name}.'
        for name in sls_list(mods)
        if name in known
    ]


@function(reads=True)
def list_disabled(context: Context) -> List[str]:
    """Return the names that state.disable has disabled."""
    kept = context.grains.get(_GRAIN)
    return [str(name) for name in kept] if isinstance(kept, (list, tuple)) else []


@function()
def disable(context: Context, states: Union[str, Sequence[str]]) -> Dict[str, Any]:
    """Disable SLS files (or `highstate`) until state.enable.

    Args:
        context: the call's context.
        states: names as for state.apply; a name disables only itself.

    Returns:
        {"res": True, "msg": a line for each}.
    """
    kept, lines = list_disabled(context), []
    for name in sls_list(states):
        lines.append(f"Info: {name} state {'already ' if name in kept else ''}disabled.")
        kept = [*kept, *([name] if name not in kept else [])]
    return _keep(context, kept, lines)


@function()
def enable(context: Context, states: Union[str, Sequence[str]]) -> Dict[str, Any]:
    """Enable SLS files (or `highstate`) again; arguments as in state.disable."""
    kept, lines = list_disabled(context), []
    for name in sls_list(states):
        lines.append(f"Info: {name} state {'' if name in kept else 'already '}enabled.")
        kept = [one for one in kept if one != name]
    return _keep(context, kept, lines)


def _keep(context: Context, names: List[str], lines: List[str]) -> Dict[str, Any]:
    if names != list_disabled(context):
        context.call("grains.setval", _GRAIN, names)
    return {"res": True, "msg": "\n".join(lines)}
