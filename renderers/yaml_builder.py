"""Data from the events of PyYAML's parser, with the limits that the parser itself does not keep.

PyYAML's own way is a tree of nodes, and data from that: five times as long. What its composer
refuses (an alias that names nothing, an anchor twice, a second document) is refused here.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import yaml

from catena.renderers.source import DuplicateKeyError, SourceLimitError
from catena.renderers.yaml_faults import YamlErrors
from catena.renderers.yaml_lines import Notes

MAX_NODES = 1_000_000
#: Maximum depth of the data: its readers recurse, and Python's stack ends near 1 000 calls.
MAX_DEPTH = 200

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_MERGES_WHAT = "<< takes a mapping or a list of mappings"
_ABSENT: Any = object()

#: Data, and the lines of what is in it.
_Made = Tuple[Any, Notes]
_NO_NOTES: Notes = {}


class Builder:
    """Builds the one document of a text.

    Args:
        loader: PyYAML's parser of it, with the rules for scalars.
        report: raises what is wrong.
    """

    def __init__(self, loader: Any, report: YamlErrors) -> None:
        self._loader = loader
        self._next = loader.get_event
        self._report = report
        self._nodes = 0
        #: Anchor -> where it began and its value; the value is None until the anchor is complete.
        self._anchors: Dict[str, Tuple[Any, Optional[_Made]]] = {}
        #: Cache of plain scalars: text -> value.
        self._known: Dict[str, Any] = {}

    def document(self) -> _Made:
        """Return the data, None where there is no document, and its lines.

        Raises:
            YamlFaultError: a key twice, a tag or a key that is not allowed, a second document.
            LimitError: more than MAX_NODES, or nested deeper than MAX_DEPTH.
            yaml.YAMLError: from the parser.
        """
        self._next()  # of the stream
        if type(self._next()) is yaml.StreamEndEvent:
            return None, _NO_NOTES
        made = self._node(self._next(), 0)
        self._next()  # the end of the document
        behind = self._next()
        if type(behind) is not yaml.StreamEndEvent:
            self._report.fail_at("expected a single document, but found another one", behind)
        return made

    def _node(self, event: Any, depth: int) -> _Made:
        """Return what begins with *event*."""
        if type(event) is yaml.AliasEvent:
            return self._alias(event, depth)
        anchor = event.anchor
        if anchor is not None:
            self._open(event)
        self._count(event)
        if type(event) is yaml.ScalarEvent:
            made: _Made = self._scalar(event), _NO_NOTES
        elif depth >= MAX_DEPTH:
            self._report.fail_at(f"nested deeper than {MAX_DEPTH}", event, SourceLimitError)
        elif type(event) is yaml.SequenceStartEvent:
            made = self._sequence(event, depth)
        else:
            made = self._mapping(event, depth)
        if anchor is not None:
            self._anchors[anchor] = event, made
        return made

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            reason = f"more than {MAX_NODES} values, aliases expanded"
            self._report.fail_at(reason, event, SourceLimitError)

    # -- anchors -------------------------------------------------------------------------------

    def _open(self, event: Any) -> None:
        first = self._anchors.get(event.anchor)
        if first is not None:
            line = self._report.source_line(first[0].start_mark.line + 1)
            reason = f"the anchor &{event.anchor} is there twice, first in line {line}"
            self._report.fail_at(reason, event)
        self._anchors[event.anchor] = event, None

    def _alias(self, event: Any, depth: int) -> _Made:
        """Return a copy of an alias's value: a change of one must not change the other."""
        if event.anchor not in self._anchors:
            self._report.fail_at("found undefined alias", event)
        first, made = self._anchors[event.anchor]
        if made is None:
            self._report.fail_at("an alias refers to a value that contains it", first)
        data, notes = made
        return self._copied(data, event, depth), notes

    def _copied(self, data: Any, event: Any, depth: int) -> Any:
        self._count(event)
        kind = type(data)
        if kind is not dict and kind is not list and kind is not set:
            return data
        if depth >= MAX_DEPTH:
            self._report.fail_at(f"nested deeper than {MAX_DEPTH}", event, SourceLimitError)
        if kind is list:
            return [self._copied(item, event, depth + 1) for item in data]
        for _ in data:
            self._count(event)
        if kind is set:
            return set(data)
        return {key: self._copied(item, event, depth + 1) for key, item in data.items()}

    # -- scalars -------------------------------------------------------------------------------

    def _scalar(self, event: Any) -> Any:
        """Return the value of a text."""
        text: str = event.value
        if event.tag is not None:
            return self._tagged(event)
        if not event.implicit[0]:
            return text  # in quotes
        found = self._known.get(text, _ABSENT)
        if found is _ABSENT:
            found = self._known[text] = self._tagged(event)
        return found

    def _tagged(self, event: Any) -> Any:
        tag = self._tag(event)
        make = _SCALARS.get(tag)
        if make is None:
            self._report.fail_at(f"the tag {tag.replace(_TAG, '!!')!r} is not allowed", event)
        try:
            return make(self._loader, yaml.ScalarNode(tag, event.value))
        except (ValueError, LookupError, yaml.YAMLError):
            kind = tag.replace(_TAG, "")
            self._report.fail_at(f"{event.value[:80]!r} is not a {kind}", event)

    def _tag(self, event: Any) -> str:
        """Return the tag of a text, by its form where none is written."""
        if event.tag is not None and event.tag != "!":
            return str(event.tag)
        return str(self._loader.resolve(yaml.ScalarNode, event.value, event.implicit))

    # -- collections ---------------------------------------------------------------------------

    def _sequence(self, event: Any, depth: int) -> _Made:
        tag = _tag_of(event, "seq")
        if tag not in _SEQUENCES:
            self._report.fail_at(f"the tag {tag!r} is not allowed on a list", event)
        items: List[Any] = []
        notes: Notes = {}
        following = self._next()
        while type(following) is not yaml.SequenceEndEvent:
            item, below = self._node(following, depth + 1)
            line = following.start_mark.line + 1
            notes[len(items)] = (line, below) if below else line
            items.append(item)
            following = self._next()
        if tag == _TAG + "omap":
            merged: Dict[Any, Any] = {}
            for item in items:
                merged.update(item if isinstance(item, dict) else {})
            return merged, notes  # an ordered map is a dict here
        return items, notes

    def _mapping(self, event: Any, depth: int) -> _Made:
        tag = _tag_of(event, "map")
        if tag not in _MAPPINGS:
            self._report.fail_at(f"the tag {tag!r} is not allowed on a mapping", event)
        own: Dict[Any, Any] = {}
        notes: Notes = {}
        inherited: Dict[Any, Any] = {}
        lines: Notes = {}
        following = self._next()
        while type(following) is not yaml.MappingEndEvent:
            if self._is_merge(following):
                self._count(following)
                self._merge(inherited, lines, depth)
            else:
                self._entry(own, notes, following, depth)
            following = self._next()
        if inherited:
            # A key of its own stands where it was written, as in Salt.
            own = {**{key: inherited[key] for key in inherited if key not in own}, **own}
            notes = {**lines, **notes}
        return (set(own) if tag == _TAG + "set" else own), notes

    def _entry(self, own: Dict[Any, Any], notes: Notes, event: Any, depth: int) -> None:
        """Add one key, which begins with *event*, and its value to a mapping."""
        key = self._key(event, depth)
        if key in own:
            self._twice(key, notes[key], event)
        line = event.start_mark.line + 1
        own[key], below = self._node(self._next(), depth + 1)
        notes[key] = (line, below) if below else line

    def _twice(self, key: Any, noted: Any, event: Any) -> None:
        line = self._report.source_line(noted[0] if type(noted) is tuple else noted)
        self._report.fail_at(
            f"found conflicting ID {key!r}: the key is there twice, first in line {line}",
            event,
            DuplicateKeyError,
        )

    def _key(self, event: Any, depth: int) -> Any:
        key = self._node(event, depth + 1)[0]
        if type(key) is list and all(not isinstance(k, (list, dict, set)) for k in key):
            return tuple(key)
        if isinstance(key, (list, dict, set)):
            self._report.fail_at(
                "a mapping or list can't be a key; is a {{ ... }} unquoted or not rendered?", event
            )
        return key

    def _is_merge(self, event: Any) -> bool:
        if type(event) is not yaml.ScalarEvent:
            return False
        return event.value == "<<" and self._tag(event) == _MERGE

    def _merge(self, into: Dict[Any, Any], lines: Notes, depth: int) -> None:
        """Take over what `<<` names, where *into* lacks it."""
        event = self._next()
        data, notes = self._node(event, depth + 1)
        sources = [(data, notes)]
        if type(data) is list:
            sources = [(item, _below(notes, index)) for index, item in enumerate(data)]
        for source, below in sources:
            if type(source) is not dict:
                self._report.fail_at(_MERGES_WHAT, event)
            for key, value in source.items():
                if key not in into:
                    into[key] = value
                    lines[key] = below.get(key, event.start_mark.line + 1)


def _below(notes: Notes, key: Any) -> Notes:
    found = notes.get(key)
    return found[1] if type(found) is tuple else _NO_NOTES


def _tag_of(event: Any, usual: str) -> str:
    """Return the tag of a list or mapping."""
    return _TAG + usual if event.tag is None or event.tag == "!" else str(event.tag)


def _integer(loader: Any, node: Any) -> int:
    value = node.value
    if value.startswith("0") and not value.lower().startswith(("0b", "0x")):
        value = value.lstrip("0") or "0"
    return int(loader.construct_yaml_int(yaml.ScalarNode(node.tag, value)))


def _verbatim(loader: Any, node: Any) -> str:
    return str(node.value)


_Scalar = Callable[[Any, Any], Any]

_SCALARS: Dict[str, _Scalar] = {
    _TAG + "null": lambda loader, node: None,
    _TAG + "bool": lambda loader, node: loader.construct_yaml_bool(node),
    _TAG + "int": _integer,
    _TAG + "float": lambda loader, node: loader.construct_yaml_float(node),
    _TAG + "binary": lambda loader, node: loader.construct_yaml_binary(node),
    _TAG + "timestamp": _verbatim,
    _TAG + "value": _verbatim,
    _TAG + "merge": _verbatim,
    _TAG + "str": _verbatim,
    _TAG + "python/unicode": _verbatim,
    _TAG + "python/str": _verbatim,
}
_SEQUENCES = frozenset({_TAG + "seq", _TAG + "omap", _TAG + "pairs"})
_MAPPINGS = frozenset({_TAG + "map", _TAG + "set"})
