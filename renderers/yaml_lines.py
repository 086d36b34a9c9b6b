"""The YAML that nearly every SLS file is written in, read line by line.

Nested `key: value` lines and `- item` lines, texts in quotes on one line, literal texts (`|`) and
lists of words in brackets. The general parser makes objects and marks of each event, which was
most of the time of a large file; here a line costs about a microsecond, and PyYAML need not even
be imported. What has another form, and everything that could be a fault, is not read here: `read`
returns None, and the general parser says what it is. So each rule below may be narrower than
YAML's, never wider; the tests compare.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from catena.core.patterns import lazy_pattern
from catena.renderers.source import DataPath

#: What the general parser allows.
_MAX_VALUES = 1_000_000
#: No line of the forms below bears more values, but for one more for each comma.
_MAX_CHARACTERS = 1 << 25
_VALUES_OF_LINE = 4
_MAX_DEPTH = 100
#: YAML ends a key that is not in quotes there.
_MAX_KEY = 1000

#: A character that YAML takes for a break, a mark or a fault, or a tab.
_UNUSUAL = lazy_pattern("[\x00-\x09\x0b-\x1f\x7f]")
#: The same of all characters. Compiled where it is needed: it takes as long as the other ten.
_UNUSUAL_OF_ALL = "[^\n -~\xa1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
#: What most lines are: a key of words, with nothing, words or a number behind it.
_COMMON = lazy_pattern(
    r"( *)(- +)?([A-Za-z_/][\w/.-]{0,99}(?: [\w/.-]{1,99}){0,8}):"
    r"(?: +(?:([A-Za-z/][\w/.,-]*(?: [\w/.,-]+)*)|(0|[1-9][0-9]{0,16})))? *$",
    re.ASCII,
)
#: A key without quotes; a colon in it has something behind it.
_KEY = lazy_pattern(r"[A-Za-z0-9_/.$][^:#]*(?::[^ :#][^:#]*)*(?<! )$")
_QUOTED_KEY = lazy_pattern(r"""(?:'([^']*)'|"([^"\\]*)"):(?: +|$)""")
_SINGLE = lazy_pattern(r"'((?:[^']|'')*)'(?: +#.*)?$")
_DOUBLE = lazy_pattern(r'"([^"\\]*)"(?: +#.*)?$')
_WORDS_IN_BRACKETS = lazy_pattern(
    r"\[ *(?:[\w./][\w./-]*(?: *, *[\w./][\w./-]*)*)? *\]$", re.ASCII
)
_WORD_IN_BRACKETS = lazy_pattern(r"[\w./-]+", re.ASCII)
#: What a text without quotes begins with.
_PLAIN = lazy_pattern(r"[A-Za-z0-9_/.$\\(^;+~]|-[A-Za-z0-9./]")
_WHOLE = lazy_pattern(r"(?:[-+]?(?:0|[1-9][0-9]{0,17})|0[0-7]{1,17})$", re.ASCII)
_FRACTION = lazy_pattern(r"[-+]?[0-9]{1,17}\.[0-9]{0,17}$", re.ASCII)
#: What may be a number of another form: with a base, an exponent, `_`, `:`, or much too long.
_ODD_NUMBER = lazy_pattern(
    r"""[-+]?(?: 0[bxo][0-9a-f_]+ | [0-9.]*_[0-9._]*(?:e[-+]?[0-9]+)? | [0-9]*\.?[0-9]*e[-+]?[0-9]+
        | [0-9][0-9_]*(?::[0-9]+)+(?:\.[0-9_]*)? | \.[0-9]+ | \.inf | \.nan | 0[0-7]+ | [0-9]{18,}
        | [0-9]+\.[0-9]{18,} | [0-9]{18,}\.[0-9]* )$""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_WORDS: Mapping[str, Any] = {
    form(word): value
    for word, value in (
        ("yes", True), ("no", False), ("true", True), ("false", False), ("on", True),
        ("off", False), ("null", None), ("~", None),
    )
    for form in (str.lower, str.upper, str.capitalize)
}  # fmt: skip
_ABSENT: Any = object()

#: What the rest of a line is.
#: Those behind _AWAITING are filled in afterwards.
_SKIPPED_KIND, _COMPLETE, _AWAITING, _LITERAL, _WORD_LIST, _EMPTY = range(6)
#: Column; it is an item; how far behind its dash the rest stands; key, value, kind of the value.
_Line = Tuple[int, bool, int, Any, Any, int]
_SKIPPED: _Line = (0, False, 0, None, None, _SKIPPED_KIND)
#: A collection that is open: column, data, lines.
_Level = Tuple[int, Any, Dict[Any, Any]]

#: Line of each key or item; (line, those of what lies below it) where that is a collection.
Notes = Dict[Any, Any]


class _OtherFormError(Exception):
    """A line is not of a form that is read here."""


class YamlLines(Mapping[DataPath, int]):
    """The line of each key and item by its path, kept nested as the data is.

    Args:
        notes: as `read` made them, counted from 1.
        source: line of the source by line of the text; (): the same.
    """

    def __init__(self, notes: Notes, source: Tuple[int, ...] = ()) -> None:
        self._notes = notes
        self._source = source

    def __getitem__(self, path: DataPath) -> int:
        notes, found = self._notes, None
        for key in path:
            found = notes[key]
            notes = found[1] if type(found) is tuple else {}
        if found is None:
            raise KeyError(path)
        line: int = found[0] if type(found) is tuple else found
        return self._source[min(line, len(self._source)) - 1] if self._source else line

    def __iter__(self) -> Iterator[DataPath]:
        waiting: List[Tuple[DataPath, Notes]] = [((), self._notes)]
        while waiting:
            path, notes = waiting.pop()
            for key, found in notes.items():
                yield (*path, key)
                if type(found) is tuple:
                    waiting.append(((*path, key), found[1]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read(text: str) -> Optional[Tuple[Dict[Any, Any], Notes]]:
    """Return the data of *text* and its lines; None where it is empty or has any other form."""
    if len(text) > _MAX_CHARACTERS or _is_unusual(text):
        return None
    try:
        data, notes = _Reader(text).read()
    except _OtherFormError:
        return None
    most = _VALUES_OF_LINE * (text.count("\n") + 1) + text.count(",")
    if not data or (most > _MAX_VALUES and _values(data) > _MAX_VALUES):
        return None
    return data, notes


def _values(data: Any) -> int:
    """Return how many values there are in *data*, keys and collections among them."""
    found = 0
    waiting = [data]
    while waiting:
        one = waiting.pop()
        found += 1
        if type(one) is dict:
            found += len(one)
            waiting += one.values()
        elif type(one) is list:
            waiting += one
    return found


def _is_unusual(text: str) -> bool:
    found = _UNUSUAL.search(text) if text.isascii() else re.search(_UNUSUAL_OF_ALL, text)
    return found is not None


class _Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        #: The collections that are open, outermost first: column, data, lines.
        self._open: List[_Level] = [(0, {}, {})]
        self._known: Dict[str, _Line] = {"": _SKIPPED}

    def read(self) -> Tuple[Dict[Any, Any], Notes]:
        """Return data and lines."""
        known, opened = self._known, self._open
        level, into, noted = opened[0]
        is_list = False
        #: The key whose value may stand in the lines that follow.
        awaiting: Any = _ABSENT
        #: The mapping that an item has begun. It is open once a line goes on with it: few do.
        begun: Optional[_Level] = None
        numbered = enumerate(self._lines, 1)
        _pass(numbered, self._marker())
        for number, line in numbered:
            column, is_item, shift, key, value, kind = known.get(line) or self._read(line)
            if kind is _SKIPPED_KIND:
                continue
            if begun is not None:
                if not is_item or column != level:
                    opened.append(begun)
                    level, into, noted = begun
                    is_list = False
                begun = None
            if key is _ABSENT and not is_item:
                # A value in the line behind its key, as in `motd:` and `  pkg.installed`.
                into[_waiting(awaiting, column > level)], awaiting = value, _ABSENT
                continue
            if column != level or is_item is not is_list:
                level, into, noted = self._moved(column, is_item, awaiting)
                is_list = is_item
            if is_item and key is not _ABSENT:
                begun = column + shift, {}, {}
                noted[len(into)] = number, begun[2]
                into.append(begun[1])
            elif is_item:
                key = len(into)
                into.append(None)
            elif key in into:
                raise _OtherFormError
            _, target, notes = begun or (level, into, noted)
            target[key], notes[key] = value, number
            awaiting = key if kind is _AWAITING else _ABSENT
            if kind > _AWAITING:
                _pass(numbered, self._fill(kind, begun or opened[-1], key, number) - number)
        return self._open[0][1:]

    def _marker(self) -> int:
        """Return the number of the line that says that the document begins; 0 without one."""
        for number, line in enumerate(self._lines, 1):
            if line == "---":
                return number
            if line and not line.isspace() and line[0] != "#":
                break
        return 0

    def _moved(self, column: int, is_item: bool, awaiting: Any) -> _Level:
        """Return the collection that a line at *column* belongs to."""
        opened = self._open
        level, into, noted = opened[-1]
        if awaiting is not _ABSENT and (column > level or (column == level and is_item)):
            made: _Level = (column, [] if is_item else {}, {})
            into[awaiting] = made[1]
            noted[awaiting] = noted[awaiting], made[2]
            opened.append(made)
            if len(opened) > _MAX_DEPTH:
                raise _OtherFormError
            return made
        # A list may stand in the column of the key that it belongs to.
        while level > column or (level == column and not is_item and type(into) is list):
            opened.pop()
            level, into, noted = opened[-1]
        if level != column or is_item is not (type(into) is list):
            raise _OtherFormError
        return level, into, noted

    def _read(self, line: str) -> _Line:
        """Return what *line* says, and keep it: lines come again and again."""
        found = self._known[line] = _common(line) or _line(line)
        return found

    def _fill(self, kind: int, level: _Level, key: Any, number: int) -> int:
        """Make the value of *key* from what it was read as; return the last line of it."""
        column, into, noted = level
        if kind is _LITERAL:
            into[key], number = self._literal(into[key], column, number)
        elif kind is _WORD_LIST:
            into[key] = list(into[key])
            noted[key] = number, dict.fromkeys(range(len(into[key])), number)
        else:
            into[key] = {}
        return number

    def _literal(self, header: str, level: int, number: int) -> Tuple[str, int]:
        """Return the text of the lines behind *number* that stand behind *level*, and the last."""
        indent = 0
        rows: List[str] = []
        for line in self._lines[number:]:
            bare = line.lstrip(" ")
            column = len(line) - len(bare)
            if bare and column <= level:
                break
            if bare and not indent:
                indent = column
                if any(len(row) > indent for row in rows):
                    raise _OtherFormError
            if bare and column < indent:
                raise _OtherFormError
            rows.append(line)
        if not indent or self._lines[-1]:
            raise _OtherFormError
        text = "\n".join(row[indent:] for row in rows).rstrip("\n")
        return text if header == "|-" else f"{text}\n", number + len(rows)


def _pass(lines: Iterator[Any], count: int) -> None:
    """Leave out some of *lines*."""
    for _ in islice(lines, count):
        pass


def _waiting(key: Any, is_behind: bool) -> Any:
    """Return the key that a value in a line of its own belongs to."""
    if key is _ABSENT or not is_behind:
        raise _OtherFormError
    return key


def _common(line: str) -> Optional[_Line]:
    """Return what a line of the most common form says; None for another form."""
    found = _COMMON.match(line)
    if found is None:
        return None
    blanks, dash, key, text, digits = found.groups()
    column, shift = len(blanks), len(dash or "")
    key = _WORDS.get(key, key)
    if text:
        return column, shift > 0, shift, key, _WORDS.get(text, text), _COMPLETE
    if digits:
        return column, shift > 0, shift, key, int(digits), _COMPLETE
    return column, shift > 0, shift, key, None, _AWAITING


def _line(line: str) -> _Line:
    """Return what a line of any form says that is read here."""
    text = line.strip(" ")
    if not text or text[0] == "#":
        return _SKIPPED
    column = len(line) - len(line.lstrip(" "))
    rest = text[2:].lstrip(" ") if text[:2] == "- " else text
    is_item, shift = rest is not text, len(text) - len(rest)
    key, rest = _split(rest)
    if key is _ABSENT and rest[0] == "#":
        raise _OtherFormError
    if key is _ABSENT and not is_item:
        return column, False, 0, key, _scalar(rest), _COMPLETE
    if not rest or rest[0] == "#":
        return column, is_item, shift, key, None, _AWAITING
    if rest[0] == "|":
        if rest not in ("|", "|-"):
            raise _OtherFormError
        return column, is_item, shift, key, rest, _LITERAL
    if rest[0] == "[":
        if not _WORDS_IN_BRACKETS.match(rest):
            raise _OtherFormError
        words = [_plain(word) for word in _WORD_IN_BRACKETS.findall(rest)]
        return column, is_item, shift, key, words, _WORD_LIST
    if rest == "{}":
        return column, is_item, shift, key, None, _EMPTY
    return column, is_item, shift, key, _scalar(rest), _COMPLETE


def _split(text: str) -> Tuple[Any, str]:
    """Return key and rest of a text; without a key, _ABSENT and the text."""
    if text[0] in "'\"":
        quoted = _QUOTED_KEY.match(text)
        if quoted is None:
            return _ABSENT, text
        return quoted[1] or quoted[2] or "", text[quoted.end() :]
    head, colon, rest = text.partition(": ")
    if not colon:
        if text[-1] != ":":
            return _ABSENT, text
        head = text[:-1]
    if len(head) > _MAX_KEY or not _KEY.match(head):
        raise _OtherFormError
    return _plain(head), rest.lstrip(" ")


def _scalar(text: str) -> Any:
    """Return the value of *text*, which is no collection and ends with its line."""
    if text[0] == "'":
        quoted = _SINGLE.match(text)
        if quoted is not None:
            return quoted[1].replace("''", "'")
    elif text[0] == '"':
        quoted = _DOUBLE.match(text)
        if quoted is not None:
            return quoted[1]
    elif _PLAIN.match(text):
        text = text.partition(" #")[0].rstrip(" ")
        if ": " not in text and text[-1] != ":":
            return _plain(text)
    raise _OtherFormError


def _plain(text: str) -> Any:
    """Return the value of a text without quotes, by the rules of YAML 1.1 that Salt keeps."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-.":
        if _WHOLE.match(text):
            return int(text)
        if _FRACTION.match(text):
            return float(text)
        if _ODD_NUMBER.match(text):
            raise _OtherFormError
    return text
