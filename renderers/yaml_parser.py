"""Any YAML, by PyYAML's C parser; what it says of a fault names the line that a person wrote.

What most files are made of does not come here: `yaml_lines` reads it, and tests compare the two.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NoReturn

import yaml

from catena.core.types import SourceLine
from catena.renderers.source import (
    DataPath,
    DuplicateKeyError,
    LineMap,
    Rendered,
    SourceLimitError,
    YamlFaultError,
)

MAX_NODES = 1_000_000
#: Every reader of the data recurses; Python's own stack ends near 1 000 calls.
MAX_DEPTH = 200
MAX_CHARACTERS = 64 * 1024 * 1024

_TAG = "tag:yaml.org,2002:"
#: What the parser says -> what is probably meant.
_HINTS = {
    "mapping values are not allowed in this context": (
        ": quote a value that has a colon and a blank in it, or mend the indentation"
    ),
    "did not find expected key": ": mend the indentation",
    "found unknown escape character": ": between single quotes a backslash is a backslash",
}
_BLOCK_DASHES = re.compile(r"^[ \-?:]*", re.MULTILINE)
_C_PARSER = getattr(yaml, "CSafeLoader", None)
_Base: Any = _C_PARSER or yaml.SafeLoader


class _Loader(_Base):  # type: ignore[misc]  # one of two classes, chosen by what PyYAML was built with
    """PyYAML's parser and scalar rules; the data is built by `_Builder`."""


def parse(
    text: str, name: str, original: str, line_map: LineMap, keep_lines: bool = True
) -> Rendered:
    """Return the data of *text*, a rendered form of *original*, with lines of *original*.

    Raises:
        YamlFaultError: not YAML, or a key twice; the message names *name* and the line.
        LimitError: more than 1 M nodes, or nested deeper than 200; with the line.
    """
    report = _Report(text, name, original, line_map)
    if len(text) > MAX_CHARACTERS:
        report.fail(f"longer than {MAX_CHARACTERS} characters when rendered", 0, SourceLimitError)
    try:
        _check_depth(text, report)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            builder = _Builder(loader, report, keep_lines)
            data = None if node is None else builder.build(node, (), 0)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        report.marked(error)
    except yaml.YAMLError as error:
        report.other(error)
    return Rendered(data, builder.lines, name)


class _Report:
    """Turns faults of the parser into errors that show the lines a person wrote."""

    def __init__(self, text: str, name: str, original: str, line_map: LineMap) -> None:
        self._text = text
        self._name = name
        self._original = original
        self._map = line_map

    def line(self, node: Any) -> int:
        """Return the source line on which *node* begins."""
        return self._map(node.start_mark.line + 1)

    def marked(self, error: yaml.MarkedYAMLError) -> NoReturn:
        """Raise what the parser found wrong at a mark."""
        mark = error.problem_mark or error.context_mark
        rendered = mark.line + 1 if mark else 0
        reason = error.problem or error.context or "not YAML"
        line = self._line(rendered)
        if "found character" in reason and "\t" in line:
            reason = "found a tab, a character that cannot start any token: indent with spaces"
        elif "found character" in reason and mark is not None:
            reason += f": quote a value that begins with {line[mark.column : mark.column + 1]}"
        elif "another document" in reason:
            self.fail("expected a single document, but found another one", rendered)
        else:
            reason += _HINTS.get(reason, "")
        context = error.context_mark
        if "unexpected end of stream" in reason and context is not None:
            # Noticed at the next quote or the end of the text; the fault is where it begins.
            mark, rendered = context, context.line + 1
            reason += f" {error.context}: is the quote closed?"
        if context is not None and mark is not None and context.line != mark.line:
            reason += f" ({error.context} that begins in line {self._map(context.line + 1)})"
        self.fail(reason, rendered)

    def other(self, error: yaml.YAMLError) -> NoReturn:
        """Raise a fault that has no mark: a character that YAML forbids."""
        position = getattr(error, "position", None)
        character = getattr(error, "character", None)
        if position is None or character is None:
            self.fail(str(error), 0)
        number = ord(character) if isinstance(character, str) else character
        rendered = self._text.count("\n", 0, position) + 1
        self.fail(f"the character U+{number:04X} is not allowed in YAML", rendered)

    def fail(self, reason: str, rendered: int, kind: Any = YamlFaultError) -> NoReturn:
        """Raise *kind* for line *rendered* of the rendered text (0: no line)."""
        lines = self._original.splitlines()
        # What is missing at the end is shown at the last line that there is.
        line = min(self._map(rendered), max(len(lines), 1)) if rendered else 0
        rendered = min(rendered, max(len(self._text.splitlines()), 1))
        note = ""
        shown = self._line(rendered)
        written = lines[line - 1 : line]
        if rendered and written != [shown]:
            note = f"  rendered (line {rendered}): {shown[:200]}"
        raise kind(reason, SourceLine(self._name, line), self._original, (), note) from None

    def fail_at(self, reason: str, node: Any, kind: Any = YamlFaultError) -> NoReturn:
        """Raise *kind* for the place of *node*."""
        self.fail(reason, node.start_mark.line + 1, kind)

    def _line(self, rendered: int) -> str:
        found = self._text.splitlines()[rendered - 1 : rendered] if rendered else []
        return found[0] if found else ""


class _Builder:
    """Data from a node tree, with the limits that the parser itself does not keep."""

    def __init__(self, loader: Any, report: _Report, keep_lines: bool) -> None:
        self._loader = loader
        self._report = report
        self._keep = keep_lines
        self._nodes = 0
        self._open: set[int] = set()
        self.lines: Dict[DataPath, int] = {}

    def build(self, node: Any, path: DataPath, depth: int) -> Any:
        """Return the data of *node*, which lies at *path*."""
        if isinstance(node, yaml.ScalarNode):
            self._count(node)
            return self._scalar(node)
        if depth >= MAX_DEPTH:
            self._report.fail_at(f"nested deeper than {MAX_DEPTH}", node, SourceLimitError)
        if id(node) in self._open:
            self._report.fail_at("an alias refers to a value that contains it", node)
        self._count(node)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path, depth)
            return self._mapping(node, path, depth)
        finally:
            self._open.discard(id(node))

    def _count(self, node: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            reason = f"more than {MAX_NODES} values, aliases expanded"
            self._report.fail_at(reason, node, SourceLimitError)

    def _scalar(self, node: Any) -> Any:
        tag = node.tag
        make = _SCALARS.get(tag)
        if make is None:
            self._report.fail_at(f"the tag {tag.replace(_TAG, '!!')!r} is not allowed", node)
        try:
            return make(self._loader, node)
        except (ValueError, LookupError, yaml.YAMLError):
            self._report.fail_at(f"{node.value[:80]!r} is not a {tag.replace(_TAG, '')}", node)

    def _sequence(self, node: Any, path: DataPath, depth: int) -> List[Any]:
        if node.tag not in _SEQUENCES:
            self._report.fail_at(f"the tag {node.tag!r} is not allowed on a list", node)
        if self._keep:
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = self._report.line(item)
        items = [self.build(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        if node.tag == _TAG + "omap":
            merged: Dict[Any, Any] = {}
            for item in items:
                merged.update(item if isinstance(item, dict) else {})
            return merged  # type: ignore[return-value]  # an ordered map is a dict here
        return items

    def _mapping(self, node: Any, path: DataPath, depth: int) -> Any:
        if node.tag not in _MAPPINGS:
            self._report.fail_at(f"the tag {node.tag!r} is not allowed on a mapping", node)
        own: Dict[Any, Any] = {}
        inherited: Dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                self._merge(inherited, value_node, path, depth)
                continue
            key = self._key(key_node, depth)
            if key in own:
                first = next(one for one, _ in node.value if self._key(one, depth) == key)
                self._report.fail_at(
                    f"found conflicting ID {key!r}: the key is there twice, first in line "
                    f"{self._report.line(first)}",
                    key_node,
                    DuplicateKeyError,
                )
            place = (*path, key)
            if self._keep:
                self.lines[place] = self._report.line(key_node)
            own[key] = self.build(value_node, place, depth + 1)
        if inherited:
            # A key of its own stands where it was written, as in Salt.
            own = {**{key: inherited[key] for key in inherited if key not in own}, **own}
        return set(own) if node.tag == _TAG + "set" else own

    def _key(self, node: Any, depth: int) -> Any:
        key = self.build(node, (), depth + 1)
        if isinstance(key, list) and all(not isinstance(k, (list, dict, set)) for k in key):
            return tuple(key)
        if isinstance(key, (list, dict, set)):
            self._report.fail_at(
                "a mapping or list can't be a key; is a {{ ... }} unquoted or not rendered?", node
            )
        return key

    def _merge(self, into: Dict[Any, Any], node: Any, path: DataPath, depth: int) -> None:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self._report.fail_at("<< takes a mapping or a list of mappings", source)
            for key, value in self.build(source, path, depth + 1).items():
                into.setdefault(key, value)


def _integer(loader: Any, node: Any) -> int:
    value = node.value
    if value.startswith("0") and not value.lower().startswith(("0b", "0x")):
        value = value.lstrip("0") or "0"
    # Construct from a fresh node: an alias brings the same node again.
    return int(loader.construct_yaml_int(yaml.ScalarNode(node.tag, value, node.start_mark)))


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


def _check_depth(text: str, report: _Report) -> None:
    """Refuse nesting that would exhaust the stack of the parser, which has no limit itself.

    The cheap bound settles nearly every text; only one that could be too deep is scanned.
    """
    brackets = text.count("[") + text.count("{")
    deepest = max((len(m.group()) for m in _BLOCK_DASHES.finditer(text)), default=0)
    if brackets + 2 * deepest < MAX_DEPTH:
        return
    depth = 0
    starts = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
    ends = (yaml.SequenceEndEvent, yaml.MappingEndEvent)
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, starts):
            depth += 1
            if depth > MAX_DEPTH:
                report.fail_at(f"nested deeper than {MAX_DEPTH}", event, SourceLimitError)
        elif isinstance(event, ends):
            depth -= 1
