"""environ.*: environment variables of the job's process, which its commands inherit."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function


def _checked(key: Any) -> str:
    if not isinstance(key, str) or not key or "=" in key or "\0" in key:
        raise UsageError(f"{key!r} cannot be an environment variable")
    return key


@function(name="setval")
def setval(
    context: Context, key: str, val: Any, false_unsets: bool = False, permanent: bool = False
) -> Any:
    """Set one variable and return its value; None when *false_unsets* and *val* is False."""
    name = _checked(key)
    if permanent:
        raise UsageError("permanent works on Windows only")
    if val is False and false_unsets:
        os.environ.pop(name, None)
        return None
    text = "" if val is False else val
    if not isinstance(text, str) or "\0" in text:
        raise UsageError(f"the value of {name} must be a string")
    os.environ[name] = text
    return text


@function()
def setenv(
    context: Context,
    environ: Mapping[str, Any],
    false_unsets: bool = False,
    clear_all: bool = False,
    update_minion: bool = False,
    permanent: bool = False,
) -> Dict[str, Any]:
    """Set several variables; with *clear_all* every other one becomes empty."""
    if not isinstance(environ, Mapping):
        raise UsageError("environ must be a mapping")
    done: Dict[str, Any] = {}
    if clear_all:
        for key in [key for key in os.environ if key not in environ]:
            done[key] = setval(context, key, False, false_unsets)
    for key, value in environ.items():
        done[key] = setval(context, key, value, false_unsets, permanent)
    return done


@function(inline=True)
def get(context: Context, key: str, default: str = "") -> str:
    """Return one variable, or *default*."""
    return os.environ.get(_checked(key), default)


@function(inline=True)
def has_value(context: Context, key: str, value: Optional[str] = None) -> bool:
    """Return whether a variable is set and not empty, or has exactly *value*."""
    found = os.environ.get(_checked(key))
    return bool(found) if value is None else found == value


@function(inline=True)
def item(context: Context, keys: Union[str, List[str]], default: str = "") -> Dict[str, str]:
    """Return several variables."""
    names = [keys] if isinstance(keys, str) else keys
    return {name: os.environ.get(name, default) for name in names}


@function(reads=True)
def items(context: Context) -> Dict[str, str]:
    """Return all variables."""
    return dict(os.environ)
