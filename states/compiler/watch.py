"""`watch` of states that have nothing to do when something changes: it is `require` there.

That decides the order of the run (requisites have ranks), what is shown, and that such a change
outweighs nothing (a watch that sees a change outweighs onfail, as in Salt).
"""

from __future__ import annotations

from typing import Any, Dict, List

from catena.core.context import Context
from catena.states.compiler.requisites import Plan

_PLAIN = {"watch": "require", "watch_any": "require_any"}
#: What these modules manage exists on Linux only: elsewhere they can do nothing.
_ON_LINUX = frozenset(("service",))


class Hearing:
    """Knows which modules do something when what they watch has changed (`mod_watch`)."""

    def __init__(self, context: Context) -> None:
        self._states = context.states
        self._linux = context.grains.get("kernel", "Linux") == "Linux"
        self._found: Dict[str, bool] = {}

    def __call__(self, module: str) -> bool:
        """Return whether *module* does."""
        if module not in self._found:
            here = self._linux or module not in _ON_LINUX
            self._found[module] = here and f"{module}.mod_watch" in self._states
        return self._found[module]


def soften(plan: Plan, hears: Hearing) -> None:
    """Make `watch` of the states that don't hear `require`, in *plan*."""
    for low, links in zip(plan.lows, plan.links):
        for watch, require in _PLAIN.items():
            if watch in links.needs and not hears(low.state):
                links.needs.setdefault(require, []).extend(links.needs.pop(watch))


def softened(chunks: List[Dict[str, Any]], hears: Hearing) -> None:
    """Do the same to low chunks that are shown."""
    for chunk in chunks:
        for watch, require in _PLAIN.items():
            if watch in chunk and not hears(chunk["state"]):
                chunk[require] = [*(chunk.get(require) or ()), *chunk.pop(watch)]
