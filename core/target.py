"""Target expressions, which select minions.

The grammar is Salt's: glob, pcre, list, grain, grain_pcre, pillar, pillar_pcre, pillar_exact,
ipcidr, nodegroup, compound. An expression is parsed once, which reports every error, and then
matched against many subjects. An empty expression matches nothing.
"""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatchcase
from functools import partial
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from catena.core.errors import UsageError
from catena.core.frozen import dataclass, field
from catena.core.nested import DELIMITER, MISSING, traverse
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown

EXPRESSION_LIMIT = 64 * 1024
PATTERN_LIMIT = 1024
#: Maximum length of a grain or pillar value matched by a regular expression. Minions choose the
#: values, and some expressions take time that grows with the square of the length.
SUBJECT_LIMIT = 4096
WORD_LIMIT = 4096

Nodegroups = Mapping[str, Union[str, List[str]]]
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class TargetError(UsageError):
    """A target expression is malformed."""


@dataclass(frozen=True)
class Subject:
    """A minion as seen by a target expression."""

    id: str
    grains: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    pillar: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)


Matcher = Callable[[Subject], bool]


@dataclass(frozen=True)
class Target:
    """A parsed expression."""

    expression: str
    tgt_type: str
    test: Matcher
    #: The minion ids, if the expression consists of ids only; None if it must be matched.
    ids: Optional[Tuple[str, ...]] = None

    def matches(self, subject: Subject) -> bool:
        """Return whether *subject* matches."""
        return self.test(subject)


def matches(target: Target, subject: Subject) -> bool:
    """Return whether *subject* matches *target*."""
    return target.test(subject)


def parse(
    expression: Union[str, List[str]],
    tgt_type: str = "glob",
    nodegroups: Nodegroups = _EMPTY,
    delimiter: str = DELIMITER,
) -> Target:
    """Return *expression* parsed.

    Args:
        expression: text; for the types list and compound also a list of words.
        tgt_type: one of TYPES.
        nodegroups: named compound expressions (config `nodegroups`).
        delimiter: separates keys and values in grain and pillar expressions.

    Raises:
        TargetError: unknown type, malformed, too long, or a nodegroup that contains itself.
    """
    text = expression if isinstance(expression, str) else ",".join(map(str, expression))
    if len(text) > EXPRESSION_LIMIT:
        raise TargetError(f"a target is at most {EXPRESSION_LIMIT} characters long")
    if not text.strip():
        return Target(text, tgt_type, _nothing, ())
    if tgt_type == "compound":
        words = _words(expression)
        return Target(text, tgt_type, _Compound(words, nodegroups, ()).parse())
    if tgt_type == "nodegroup":
        return Target(text, tgt_type, _nodegroup(text, nodegroups, ()))
    if tgt_type == "list":
        ids = _ids(expression)
        return Target(text, tgt_type, partial(_in_list, frozenset(ids)), ids)
    if tgt_type not in _SIMPLE:
        raise TargetError(unknown("target type", tgt_type, TYPES))
    return Target(text, tgt_type, _SIMPLE[tgt_type](text, delimiter))


def _nothing(subject: Subject) -> bool:
    return False


def _ids(expression: Union[str, List[str]]) -> Tuple[str, ...]:
    parts = expression.split(",") if isinstance(expression, str) else expression
    return tuple(part for part in (str(part).strip() for part in parts) if part)


def _in_list(ids: frozenset[str], subject: Subject) -> bool:
    return subject.id in ids


def _glob(pattern: str, _delimiter: str) -> Matcher:
    return lambda subject: fnmatchcase(subject.id, pattern)


def _list(pattern: str, _delimiter: str) -> Matcher:
    return partial(_in_list, frozenset(_ids(pattern)))


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return *pattern* compiled.

    Raises:
        TargetError: longer than 1024 characters, or not a regular expression.
    """
    if len(pattern) > PATTERN_LIMIT:
        raise TargetError(f"a regular expression is at most {PATTERN_LIMIT} characters long")
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise TargetError(f"{pattern[:80]!r} is not a regular expression: {error}") from None


def _pcre(pattern: str, _delimiter: str) -> Matcher:
    found = compile_pattern(pattern)
    return lambda subject: bool(found.match(subject.id))


def _network(pattern: str, _delimiter: str) -> Matcher:
    try:
        # A single address is a network of one host. Host bits are ignored, as in Salt.
        network = ipaddress.ip_network(pattern)
    except ValueError as error:
        raise TargetError(f"{pattern[:80]!r} is not an address or network: {error}") from None

    def test(subject: Subject) -> bool:
        addresses = subject.grains.get(f"ipv{network.version}") or ()
        return any(_inside(address, network) for address in addresses)

    return test


def _inside(address: Any, network: Union[ipaddress.IPv4Network, ipaddress.IPv6Network]) -> bool:
    try:
        return ipaddress.ip_address(str(address)) in network
    except ValueError:
        return False


class _Leaf:
    """How one value of grains or pillar is compared; case is ignored, as in Salt."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._compiled: Dict[str, re.Pattern[str]] = {}

    def check(self, pattern: str, delimiter: str) -> None:
        """Raise TargetError unless every possible value part of *pattern* can be compared."""
        if len(pattern) > PATTERN_LIMIT:
            raise TargetError(f"a pattern is at most {PATTERN_LIMIT} characters long")
        if self._kind == "pcre":
            compile_pattern(pattern.partition(delimiter)[2])

    def __call__(self, value: Any, pattern: str) -> bool:
        text = str(value)[:SUBJECT_LIMIT].lower()
        if self._kind == "exact":
            return text == pattern.lower()
        if self._kind == "glob":
            return fnmatchcase(text, pattern.lower())
        return self._matches(text, pattern)

    def _matches(self, text: str, pattern: str) -> bool:
        found = self._compiled.get(pattern)
        if found is None:
            try:
                found = compile_pattern(pattern, re.IGNORECASE)
            except TargetError:
                # This split cut the expression inside a group, so it is not the intended one.
                found = compile_pattern(r"(?!)")
            self._compiled[pattern] = found
        return bool(found.match(text))


def _holds(data: Any, pattern: str, leaf: _Leaf, delimiter: str) -> bool:
    """Return whether *data* contains what *pattern* ("key:subkey:value") describes.

    Keys and values may contain the delimiter, so every split is tried.
    """
    parts = pattern.split(delimiter)
    for count in range(len(parts) - 1, 0, -1):
        key = delimiter.join(parts[:count])
        rest = delimiter.join(parts[count:])
        if any(_fits(value, rest, leaf, delimiter) for value in _values(data, key, delimiter)):
            return True
    return False


def _values(data: Any, key: str, delimiter: str) -> Iterator[Any]:
    if key == "*":
        if isinstance(data, Mapping):
            yield from data.values()
        return
    if isinstance(data, Mapping) and key in data:
        yield data[key]
        return
    found = traverse(data, key, MISSING, delimiter)
    if found is not MISSING:
        yield found


def _fits(value: Any, rest: str, leaf: _Leaf, delimiter: str) -> bool:
    if isinstance(value, Mapping):
        return _fits_mapping(value, rest, leaf, delimiter)
    if isinstance(value, (list, tuple)):
        return any(_fits(member, rest, leaf, delimiter) for member in value)
    return leaf(value, rest)


def _fits_mapping(value: Mapping[Any, Any], rest: str, leaf: _Leaf, delimiter: str) -> bool:
    if rest == "*" or rest in value or any(leaf(key, rest) for key in value):
        return True
    if _holds(value, rest, leaf, delimiter):
        return True
    head, _, tail = rest.partition(delimiter)
    if head == "*" and tail:
        return any(_fits(inner, tail, leaf, delimiter) for inner in value.values())
    return False


def _data(source: str, kind: str) -> Callable[[str, str], Matcher]:
    def make(pattern: str, delimiter: str) -> Matcher:
        if delimiter not in pattern:
            raise TargetError(f"{pattern[:80]!r} needs the form key{delimiter}value")
        leaf = _Leaf(kind)
        leaf.check(pattern, delimiter)
        return lambda subject: _holds(getattr(subject, source), pattern, leaf, delimiter)

    return make


_SIMPLE: Mapping[str, Callable[[str, str], Matcher]] = {
    "glob": _glob,
    "pcre": _pcre,
    "list": _list,
    "grain": _data("grains", "glob"),
    "grain_pcre": _data("grains", "pcre"),
    "pillar": _data("pillar", "glob"),
    "pillar_pcre": _data("pillar", "pcre"),
    "pillar_exact": _data("pillar", "exact"),
    "ipcidr": _network,
}
TYPES = (*_SIMPLE, "nodegroup", "compound")

#: Letter before the @ of a compound word -> target type.
_LETTERS = {
    "G": "grain",
    "P": "grain_pcre",
    "I": "pillar",
    "J": "pillar_pcre",
    "E": "pcre",
    "L": "list",
    "S": "ipcidr",
    "N": "nodegroup",
}
_OPERATORS = frozenset(("and", "or", "not", "(", ")"))
_REGEX_SIGNS = frozenset("()[]{}?\\")
_WORD = lazy_pattern(r"([A-Za-z])([^\w@]?)@(.*)\Z", re.DOTALL)


def _nodegroup(name: str, nodegroups: Nodegroups, inside: Tuple[str, ...]) -> Matcher:
    if name in inside:
        raise TargetError(f"nodegroup {name!r} contains itself: {' > '.join((*inside, name))}")
    if name not in nodegroups:
        raise TargetError(unknown("nodegroup", name, nodegroups))
    words = _words(nodegroups[name])
    if not any(word in _OPERATORS or "*" in word or _WORD.match(word) for word in words):
        # Names only: a list of ids, or one regular expression, as in Salt.
        is_pattern = any(_REGEX_SIGNS.intersection(word) for word in words)
        return _pcre(",".join(words), DELIMITER) if is_pattern else _list(",".join(words), "")
    return _Compound(words, nodegroups, (*inside, name)).parse()


def _words(expression: Union[str, List[str]]) -> List[str]:
    """Return the words of a compound expression; a parenthesis is a separate word."""
    words = expression.split() if isinstance(expression, str) else [str(w) for w in expression]
    if len(words) > WORD_LIMIT:
        raise TargetError(f"a compound target has at most {WORD_LIMIT} words")
    for word in words:
        if word in _OPERATORS:
            continue
        # Salt treats a parenthesis without a blank as part of the name, but no name contains one.
        if word.startswith("(") or (word.endswith(")") and word.count(")") > word.count("(")):
            raise TargetError(f"malformed compound target: blanks around parentheses: {word!r}")
    return words


class _Compound:
    """Recursive descent parser of and, or, not and parentheses; `and` binds tighter than `or`."""

    DEPTH_LIMIT = 50

    def __init__(self, words: List[str], nodegroups: Nodegroups, inside: Tuple[str, ...]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0
        self._nodegroups = nodegroups
        self._inside = inside

    def parse(self) -> Matcher:
        """Return the whole expression as one matcher."""
        if not self._words:
            return _nothing
        found = self._or()
        if self._at < len(self._words):
            raise self._fault(f"expected 'and' or 'or' before {self._words[self._at]!r}")
        return found

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _or(self) -> Matcher:
        tests = [self._and()]
        while self._peek() == "or":
            self._at += 1
            tests.append(self._and())
        return tests[0] if len(tests) == 1 else lambda s: any(test(s) for test in tests)

    def _and(self) -> Matcher:
        tests = [self._not()]
        # As in Salt, "a not b" means "a and not b".
        while self._peek() in ("and", "not"):
            self._at += self._peek() == "and"
            tests.append(self._not())
        return tests[0] if len(tests) == 1 else lambda s: all(test(s) for test in tests)

    def _not(self) -> Matcher:
        negated = self._peek() == "not"
        self._at += negated
        test = self._term()
        return (lambda subject: not test(subject)) if negated else test

    def _term(self) -> Matcher:
        word = self._peek()
        if word in ("", "and", "or", ")"):
            raise self._fault(f"expected a target, got {word!r}" if word else "ends too early")
        self._at += 1
        if word != "(":
            return self._word(word)
        self._depth += 1
        if self._depth > self.DEPTH_LIMIT:
            raise self._fault(f"nested deeper than {self.DEPTH_LIMIT}")
        found = self._or()
        if self._peek() != ")":
            raise self._fault("a '(' has no ')'")
        self._at += 1
        self._depth -= 1
        return found

    def _word(self, word: str) -> Matcher:
        found = _WORD.match(word)
        if not found:
            return _glob(word, DELIMITER)
        letter, delimiter, pattern = found.groups()
        if letter not in _LETTERS:
            raise self._fault(f"unknown matcher {letter + '@'!r}: one of {', '.join(_LETTERS)}")
        if not pattern:
            raise self._fault(f"{word!r} names nothing")
        kind = _LETTERS[letter]
        if kind == "nodegroup":
            return _nodegroup(pattern, self._nodegroups, self._inside)
        return _SIMPLE[kind](pattern, delimiter or DELIMITER)

    def _fault(self, why: str) -> TargetError:
        shown = " ".join(self._words)[:200]
        return TargetError(f"malformed compound target {shown!r}: {why}")
