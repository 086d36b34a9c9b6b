"""`watch` of states that have nothing to do when something changes: it is `require` there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence

from catena.core.context import Context
from catena.states.compiler.model import Low

_PLAIN = {"watch": "require", "watch_any": "require_any"}
#: What these modules manage exists on Linux only: elsewhere they can do nothing.
_ON_LINUX = frozenset(("service",))


def without_deaf_watches(lows: Sequence[Low], context: Context) -> List[Low]:
    """Return *lows* with `watch` as `require` where the module has no `mod_watch`, as Salt does.

    It decides nothing but the order of the run (requisites have ranks) and what is shown.
    """
    reacts: Dict[str, bool] = {}
    result = []
    for low in lows:
        if "watch" in low.keywords or "watch_any" in low.keywords:
            if low.state not in reacts:
                reacts[low.state] = _reacts(low.state, context)
            if not reacts[low.state]:
                low = replace(low, keywords=_plain(low))
        result.append(low)
    return result


def _reacts(module: str, context: Context) -> bool:
    here = module not in _ON_LINUX or context.grains.get("kernel", "Linux") == "Linux"
    return here and f"{module}.mod_watch" in context.states


def _plain(low: Low) -> Dict[str, Any]:
    keywords = dict(low.keywords)
    for watch, require in _PLAIN.items():
        if watch in keywords:
            keywords[require] = [*(keywords.get(require) or ()), *keywords.pop(watch)]
    return keywords
