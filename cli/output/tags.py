"""Readable forms of state tags in texts (`cmd_|-id_|-name_|-run`)."""

from __future__ import annotations

from typing import Tuple

from catena.core.patterns import lazy_pattern

#: Text before the failed states of an action that applied states (`states.function_calls`).
NESTED = "what failed in it:"
_TAG = lazy_pattern(r"([A-Za-z]\w*)_\|-((?:(?!_\|-).)*)_\|-((?:(?!_\|-).)*)_\|-(\w+)")


def spoken(text: str) -> str:
    """Return *text* with each state tag replaced by the state's id and function."""
    return _TAG.sub(lambda found: f"{found[2]} ({found[1]}.{found[4]})", text)


def parts(tag: str) -> Tuple[str, str]:
    """Return the id and the function of the state in *tag*; other texts unchanged, with ""."""
    found = _TAG.match(tag)
    return (found[2], f"{found[1]}.{found[4]}") if found else (tag, "")
