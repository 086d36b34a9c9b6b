"""Version ranges of npm (semantic versioning 2.0.0 and the grammar of node-semver)."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Tuple

from catena.core.frozen import dataclass

#: Maximum characters of a range.
_LENGTH = 256
_PART = r"(?:0|[1-9]\d*|[xX*])"
_COMPARATOR = re.compile(
    rf"(?P<operator>\^|~>?|<=|>=|<|>|=)?\s*v?(?P<major>{_PART})(?:\.(?P<minor>{_PART}))?"
    rf"(?:\.(?P<patch>{_PART}))?(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\Z"
)
#: An operator may stand apart from its version.
_APART = re.compile(r"(\^|~>?|<=|>=|<|>|=)\s+")


@dataclass(frozen=True)
class Semver:
    """A version: three numbers, and the identifiers of a pre-release."""

    numbers: Tuple[int, int, int]
    pre: Tuple[str, ...] = ()

    def key(self) -> Tuple[Any, ...]:
        """Return the sorting key: a pre-release is older, numbers are older than words."""
        parts = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in self.pre)
        return (self.numbers, not self.pre, parts)


#: One condition: an operator (<, <=, >, >=, =) and a version.
_Condition = Tuple[str, Semver]


def parse(text: str) -> Optional[Semver]:
    """Return a complete version; None if *text* is none."""
    found = _COMPARATOR.match(text.strip())
    if found is None or found["operator"] or found["patch"] is None:
        return None
    parts = [found["major"], found["minor"], found["patch"]]
    if not all(part.isdigit() for part in parts):
        return None
    return Semver((int(parts[0]), int(parts[1]), int(parts[2])), _pre(found["pre"]))


def _pre(text: Optional[str]) -> Tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


def satisfies(version: str, wanted: str) -> Optional[bool]:
    """Return whether a version is in a range; None if *wanted* is no range but a tag (latest)."""
    if len(wanted) > _LENGTH:
        return None
    alternatives = [_conditions(part.strip()) for part in wanted.split("||")]
    have = parse(version)
    if any(one is None for one in alternatives):
        return None
    return have is not None and any(_meets(have, one) for one in alternatives if one is not None)


def _meets(have: Semver, conditions: List[_Condition]) -> bool:
    if not all(_compares(have, operator, want) for operator, want in conditions):
        return False
    # A pre-release meets only a range that names a pre-release of the same version.
    return not have.pre or any(want.pre and want.numbers == have.numbers for _, want in conditions)


def _compares(have: Semver, operator: str, want: Semver) -> bool:
    left, right = have.key(), want.key()
    return {
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
        "=": left == right,
    }[operator]  # fmt: skip


def _conditions(text: str) -> Optional[List[_Condition]]:
    """Return the conditions of one alternative of a range; None if it is none."""
    low, hyphen, high = text.partition(" - ")
    if hyphen:
        first, last = _comparator(f">={low.strip()}"), _comparator(f"<={high.strip()}")
        return None if first is None or last is None else [*first, *last]
    found: List[_Condition] = []
    for word in _APART.sub(r"\1", text).split() or ["*"]:
        conditions = _comparator(word)
        if conditions is None:
            return None
        found += conditions
    return found


def _comparator(word: str) -> Optional[List[_Condition]]:
    match = _COMPARATOR.match(word)
    if match is None:
        return None
    numbers = []
    for part in (match["major"], match["minor"], match["patch"]):
        if part is None or not part.isdigit():
            break
        numbers.append(int(part))
    filled = (*numbers, 0, 0, 0)
    low = Semver((filled[0], filled[1], filled[2]), _pre(match["pre"]))
    operator = match["operator"] or "="
    if operator in ("^", "~", "~>") or (operator == "=" and len(numbers) < 3):
        return _span(operator, numbers, low)
    if len(numbers) < 3 and operator in (">", "<="):
        # >1.2 is >=1.3.0, and <=1.2 is <1.3.0.
        above = _above(numbers)
        if above is None:
            return [("<", Semver((0, 0, 0), ("0",)))] if operator == ">" else []
        return [(">=" if operator == ">" else "<", above)]
    return [(operator, low)]


def _above(numbers: List[int]) -> Optional[Semver]:
    """Return the first version above all that begin with some numbers; None: there is none."""
    if not numbers:
        return None
    raised = [*numbers[:-1], numbers[-1] + 1, 0, 0]
    return Semver((raised[0], raised[1], raised[2]), ("0",) if len(numbers) < 3 else ())


def _span(operator: str, numbers: List[int], low: Semver) -> List[_Condition]:
    """Return the conditions of ^1.2.3, ~1.2.3 and 1.2.x."""
    if not numbers:
        return [(">=", low)]
    fixed = numbers[:2]
    if operator == "^":
        # The first number that is not zero stays.
        first = next((place for place, one in enumerate(numbers) if one), len(numbers) - 1)
        fixed = numbers[: first + 1]
    elif operator == "=":
        fixed = numbers
    raised = [*fixed[:-1], fixed[-1] + 1, 0, 0]
    return [(">=", low), ("<", Semver((raised[0], raised[1], raised[2]), ("0",)))]
