"""Hides secrets in logs, events and printed pillar."""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Sequence

from catena.core.addresses import hide_credentials
from catena.core.patterns import lazy_pattern

#: Replacement for a hidden value (Salt's mask, which users' tools recognise).
MASK = "**********"

_DEPTH_LIMIT = 100
_SECRET_NAME = lazy_pattern(
    r"passw(or)?d|passphrase|(^|[^a-z])pass($|[^a-z])|secret|token|api_?key|private_?key"
    r"|credential",
    re.IGNORECASE,
)

#: The password in an address: scheme://USER:PASSWORD@HOST.
_URL_PASSWORD = lazy_pattern(r"(?<=://)([^\s/:@]*):[^\s/]+@")


#: Arguments that are hidden completely: data kept off a command's command line, and pillar.
_SECRET_ARGUMENTS = frozenset({"env", "stdin", "pillar"})


def is_secret_name(name: str) -> bool:
    """Return whether a value called *name* must be hidden."""
    return bool(_SECRET_NAME.search(name))


def mask(data: Any) -> Any:
    """Return *data* with every value but null hidden; keys and structure stay (pillar.items)."""
    if isinstance(data, Mapping):
        return {key: mask(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [mask(value) for value in data]
    return None if data is None else MASK


def hide_named(data: Any, depth: int = 0) -> Any:
    """Return *data* without secrets, for logs and events.

    Values of keys that sound secret and credentials in URLs are hidden.
    """
    if depth > _DEPTH_LIMIT:
        return MASK
    if isinstance(data, Mapping):
        return {
            key: MASK
            if is_secret_name(str(key)) and value not in (None, "", True, False)
            else hide_named(value, depth + 1)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [hide_named(value, depth + 1) for value in data]
    return hide_credentials(data) if isinstance(data, str) and "://" in data else data


def hide_url_passwords(data: Any, depth: int = 0) -> Any:
    """Return *data* with the passwords of all addresses in its texts and keys hidden."""
    if depth > _DEPTH_LIMIT:
        return MASK
    if isinstance(data, str):
        return _URL_PASSWORD.sub(rf"\1:{MASK}@", data) if "@" in data else data
    if isinstance(data, Mapping):
        return {
            hide_url_passwords(key, depth + 1): hide_url_passwords(value, depth + 1)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [hide_url_passwords(value, depth + 1) for value in data]
    return data


def hide_arguments(values: Sequence[Any]) -> List[Any]:
    """Return a call's arguments without secrets; mappings among them are keyword arguments."""
    return [_hide_argument(value) for value in values]


def _hide_argument(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if key in _SECRET_ARGUMENTS and item else item
            for key, item in hide_named(value).items()
        }
    if isinstance(value, str):
        name, sign, _ = value.partition("=")
        if sign and is_secret_name(name):
            return f"{name}={MASK}"
    return hide_named(value)
