"""Treat `watch` as `require` in states whose module has no `mod_watch`.

This affects the order of the run, because requisites have ranks, and the output of show functions.
As in Salt, a real watch that sees a change also takes precedence over onfail.
"""

from __future__ import annotations

from typing import Any, Dict, List

from catena.core.context import Context
from catena.states.compiler.requisites import Plan

_PLAIN = {"watch": "require", "watch_any": "require_any"}
#: State modules whose mod_watch works only on Linux.
_ON_LINUX = frozenset(("service",))


class Hearing:
    """Tells which modules react to changes of watched states (`mod_watch`)."""

    def __init__(self, context: Context) -> None:
        self._states = context.states
        self._linux = context.grains.get("kernel", "Linux") == "Linux"
        self._found: Dict[str, bool] = {}

    def __call__(self, module: str) -> bool:
        """Return whether *module* reacts to changes."""
        if module not in self._found:
            here = self._linux or module not in _ON_LINUX
            self._found[module] = here and f"{module}.mod_watch" in self._states
        return self._found[module]


def soften(plan: Plan, hears: Hearing) -> None:
    """Replace `watch` by `require` in *plan* for states that do not react to changes."""
    for low, links in zip(plan.lows, plan.links):
        for watch, require in _PLAIN.items():
            if watch in links.needs and not hears(low.state):
                links.needs.setdefault(require, []).extend(links.needs.pop(watch))


def softened(chunks: List[Dict[str, Any]], hears: Hearing) -> None:
    """Replace `watch` by `require` in low chunks for show functions."""
    for chunk in chunks:
        for watch, require in _PLAIN.items():
            if watch in chunk and not hears(chunk["state"]):
                chunk[require] = [*(chunk.get(require) or ()), *chunk.pop(watch)]
