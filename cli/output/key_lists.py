"""Output key: lists of keys as `salt-key -L` prints them."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from catena.cli.output.nested import nested
from catena.cli.output.text import paint, printable

_INDENT = 4
#: Name of a list in the data -> (title, colour of the keys).
_LISTS: Mapping[str, tuple[str, str]] = {
    "local": ("Local Keys:", "cyan"),
    "minions": ("Accepted Keys:", "green"),
    "minions_denied": ("Denied Keys:", "blue"),
    "minions_pre": ("Unaccepted Keys:", "red"),
    "minions_rejected": ("Rejected Keys:", "light_red"),
}
#: State of a key -> name of its list in Salt.
SALT_NAMES: Mapping[str, str] = {
    "accepted": "minions",
    "denied": "minions_denied",
    "pending": "minions_pre",
    "rejected": "minions_rejected",
}


def key(minion: str, value: Any, colour: bool) -> str:
    """Return lists of keys below *minion*; any other value as nested shows it."""
    if not is_key_lists(value):
        return nested(minion, value, colour)
    pad = " " * _INDENT
    lines = (pad + line for line in key_lines(value, colour))
    return "\n".join([paint(f"{minion}:", "green", colour), *lines])


def is_key_lists(value: Any) -> bool:
    """Return whether *value* is {list of keys: ids, or {id: fingerprint}}."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(name in _LISTS for name in value)
        and all(isinstance(ids, (list, tuple, Mapping)) for ids in value.values())
    )


def key_lines(lists: Mapping[str, Any], colour: bool) -> Iterator[str]:
    """Yield a title for each list and its keys, sorted, in Salt's order of the lists."""
    for name, (title, hue) in _LISTS.items():
        if name not in lists:
            continue
        yield paint(title, "bold", colour)
        ids = lists[name]
        for ident in sorted(map(str, ids)):
            mark = f":  {ids[ident]}" if isinstance(ids, Mapping) else ""
            yield paint(printable(f"{ident}{mark}").replace("\n", "\\n"), hue, colour)
