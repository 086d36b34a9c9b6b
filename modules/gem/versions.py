"""Versions of RubyGems and the conditions on them (Gem::Version, Gem::Requirement)."""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple, Union

from catena.core.errors import UsageError

_VERSION = re.compile(r"\d[0-9A-Za-z.]*(?:-[0-9A-Za-z.-]+)?\Z")
_CONDITION = re.compile(r"\s*(~>|!=|>=|<=|>|<|=)?\s*(\S+)\s*\Z")

#: Operator and version.
Condition = Tuple[str, str]


def conditions(text: str) -> List[Condition]:
    """Return the conditions of a text such as ">= 1.2, < 2"; a bare version means "=".

    Raises:
        UsageError: it is none.
    """
    found = []
    for part in text.split(","):
        known = _CONDITION.match(part)
        if known is None or not _VERSION.match(known[2]):
            raise UsageError(f"{text[:80]!r} is no condition on the version of a gem")
        found.append((known[1] or "=", known[2]))
    return found


def _segments(version: str) -> List[Union[int, str]]:
    parts = re.findall(r"\d+|[A-Za-z]+", version.replace("-", ".pre."))
    found: List[Union[int, str]] = [int(part) if part.isdigit() else part for part in parts]
    while len(found) > 1 and found[-1] == 0:
        found.pop()
    return found


def compare(left: str, right: str) -> int:
    """Return -1, 0 or 1, as a version is older, equal or newer."""
    first, second = _segments(left), _segments(right)
    length = max(len(first), len(second))
    for one, other in zip(_padded(first, length), _padded(second, length)):
        # A word makes a pre-release: it is older than a number.
        keys = [(isinstance(part, int), part) for part in (one, other)]
        if keys[0] != keys[1]:
            return -1 if keys[0] < keys[1] else 1
    return 0


def _padded(segments: List[Union[int, str]], length: int) -> List[Union[int, str]]:
    return segments + [0] * (length - len(segments))


def satisfies(version: str, wanted: Sequence[Condition]) -> bool:
    """Return whether a version meets every condition."""
    return all(_meets(version, operator, text) for operator, text in wanted)


def _meets(version: str, operator: str, wanted: str) -> bool:
    found = compare(version, wanted)
    if operator == "~>":
        # ~> 1.2.3 is >= 1.2.3 and < 1.3.
        numbers = [part for part in _release(wanted)]
        limit = [*numbers[:-2], numbers[-2] + 1] if len(numbers) > 1 else [numbers[0] + 1]
        return found >= 0 and _release(version) < limit
    return {
        "=": found == 0, "!=": found != 0, ">": found > 0, "<": found < 0, ">=": found >= 0,
        "<=": found <= 0,
    }[operator]  # fmt: skip


def _release(version: str) -> List[int]:
    """Return the numbers before the first word."""
    found = []
    for part in re.findall(r"\d+|[A-Za-z]+", version.replace("-", ".pre.")):
        if not part.isdigit():
            break
        found.append(int(part))
    return found
