"""The yamlex renderer: YAML in which a key may come several times and values can be joined.

`!aggregate` joins a value with that of the same key before it: lists are appended, mappings
merged. `!reset` drops what came before. Without a tag, a later value replaces an earlier one,
but joins the tagged values inside it. Salt documents the tags in `salt.serializers.yamlex`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import yaml

from catena.renderers import yaml_parser
from catena.renderers.source import LineMap, Rendered
from catena.renderers.yaml_builder import Builder
from catena.renderers.yaml_lines import Notes

AGGREGATE, RESET = "!aggregate", "!reset"


def load_rendered(text: str, name: str, original: str, line_map: LineMap) -> Rendered:
    """Return the data of *text*, a rendered form of *original*, with lines of *original*.

    Raises:
        YamlFaultError: not YAML; the message names *name* and the line.
        LimitError: more than 1 M nodes, or nested deeper than 200; with the line.
    """
    return yaml_parser.parse(text, name, original, line_map, builder=_Joining)


class _Joining(Builder):
    """Builds data and joins the values of repeated keys."""

    def __init__(self, loader: Any, report: Any) -> None:
        super().__init__(loader, report)
        #: Containers with the tag !aggregate by their id; the value keeps the id taken.
        self._aggregates: Dict[int, Any] = {}
        #: (id of a mapping, key) of values with the tag !reset; the value is the mapping.
        self._resets: Dict[Tuple[int, Any], Any] = {}
        #: Event of the value that is joined, for errors.
        self._event: Any = None

    def _node(self, event: Any, depth: int) -> Tuple[Any, Notes]:
        tag = _taken_tag(event)
        data, notes = super()._node(event, depth)
        return (self._aggregated(data), notes) if tag == AGGREGATE else (data, notes)

    def _entry(self, own: Dict[Any, Any], notes: Notes, event: Any, depth: int) -> None:
        line = event.start_mark.line + 1
        tags = [_taken_tag(event)]
        key = self._key(event, depth)
        following = self._next()
        tags.append(_tag(following))
        value, below = self._node(following, depth + 1)
        if tags[0] == AGGREGATE:
            value = self._aggregated(value)
        if RESET in tags:
            self._resets[id(own), key] = own
        elif key in own:
            self._event = following
            value = self._joined(own[key], value)
            below = _joined_notes(notes[key], below, value)
        own[key] = value
        notes[key] = (line, below) if below else line

    def _aggregated(self, data: Any) -> Any:
        """Return *data* as a container that is joined with an earlier one."""
        if not isinstance(data, (dict, list)):
            data = [] if data is None else [data]
        self._aggregates[id(data)] = data
        return data

    def _joined(self, old: Any, new: Any) -> Any:
        """Return the value of a key that had the value *old* and gets *new*."""
        joins = id(new) in self._aggregates
        if isinstance(old, dict) and isinstance(new, dict):
            found: Any = dict(old) if joins else {}
            for key, value in new.items():
                is_joined = key in old and (id(new), key) not in self._resets
                found[key] = self._joined(old[key], value) if is_joined else value
        elif joins and isinstance(new, list) and isinstance(old, list):
            if id(old) not in self._aggregates:
                return new
            found = self._appended(old, new)
        else:
            return new
        return self._aggregated(found) if joins else found

    def _appended(self, old: List[Any], new: List[Any]) -> List[Any]:
        for _ in old:
            self._count(self._event)
        return [*old, *(item for item in new if item not in old)]


def _tag(event: Any) -> str:
    found = getattr(event, "tag", None)
    return found if found in (AGGREGATE, RESET) else ""


def _taken_tag(event: Any) -> str:
    """Return the tag of an event if it is one of the two, and remove it."""
    tag = _tag(event)
    if tag:
        event.tag = None
        if type(event) is yaml.ScalarEvent:
            is_plain = not event.style
            event.implicit = (is_plain, not is_plain)
    return tag


def _joined_notes(old: Any, new: Notes, value: Any) -> Notes:
    """Return the lines of what is in a joined value; none for a list, whose positions changed."""
    before = old[1] if type(old) is tuple else {}
    return {**before, **new} if isinstance(value, dict) else {}
