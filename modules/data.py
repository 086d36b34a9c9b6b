"""data.*: a small persistent store of values on this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ContextManager, Dict, List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.files import alone, durable_folder, write_durable
from catena.core.plugins import function

_FILE = "datastore.json"
_LIMIT = 4 * 1024 * 1024


def _path(context: Context) -> Path:
    return context.host.cache_dir / _FILE


def _alone(context: Context) -> ContextManager[None]:
    """Lock the store against other jobs while it is read, changed and written."""
    path = _path(context)
    durable_folder(path.parent)
    return alone(path.with_suffix(".lock"))


@function(reads=True)
def load(context: Context) -> Dict[str, Any]:
    """Return everything in the store.

    Raises:
        CommandExecutionError: its file can't be read.
    """
    path = _path(context)
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as problem:
        raise CommandExecutionError(f"{path}: {problem}; data.clear begins anew") from problem
    return found if isinstance(found, dict) else {}


def _save(context: Context, values: Dict[str, Any]) -> bool:
    try:
        text = json.dumps(values)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"the value can't be kept: {problem}") from None
    if len(text) > _LIMIT:
        raise UsageError(f"the store would be longer than {_LIMIT} bytes")
    path = _path(context)
    durable_folder(path.parent)
    write_durable(path, text.encode("utf-8"), mode=0o600)
    return True


@function()
def clear(context: Context) -> bool:
    """Remove all values; return True."""
    return _save(context, {})


@function()
def dump(context: Context, new_data: Any) -> bool:
    """Replace the store by a mapping, or by a JSON mapping; return False for other values."""
    given = new_data
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return False
    return _save(context, dict(given)) if isinstance(given, dict) else False


@function()
def update(context: Context, key: str, value: Any) -> bool:
    """Store *value* as *key*; return True."""
    with _alone(context):
        return _save(context, {**load(context), str(key): value})


@function()
def cas(context: Context, key: str, value: Any, old_value: Any) -> bool:
    """Store *value* as *key* if the current value is *old_value*; return whether it was."""
    with _alone(context):
        values = load(context)
        if key not in values or values[key] != old_value:
            return False
        return _save(context, {**values, key: value})


@function()
def pop(context: Context, key: str, default: Any = None) -> Any:
    """Remove *key* and return its value, or *default*."""
    with _alone(context):
        values = load(context)
        found = values.pop(key, default)
        _save(context, values)
        return found


@function(name="get", reads=True)
def get(context: Context, key: Any, default: Any = None) -> Any:
    """Return the value of *key*, or *default*; of a list of keys, a list of values."""
    values = load(context)
    return (
        [values.get(one, default) for one in key]
        if isinstance(key, list)
        else values.get(key, default)
    )


@function(reads=True)
def has_key(context: Context, key: str) -> bool:
    """Return whether *key* is in the store."""
    return key in load(context)


@function(name="keys", reads=True)
def keys(context: Context) -> List[str]:
    """Return every key."""
    return list(load(context))


@function(name="values", reads=True)
def values(context: Context) -> List[Any]:
    """Return every value."""
    return list(load(context).values())


@function(name="items", reads=True)
def items(context: Context) -> Dict[str, Any]:
    """Return every key with its value."""
    return load(context)
