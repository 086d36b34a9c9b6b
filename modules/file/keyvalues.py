"""file.keyvalue: the values of keys in `key<separator>value` lines, with no file in sight.

The rules are Salt's: a key counts as set once `count` of its lines hold the value; further lines
of it go, commented ones come in only while it is not set yet.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class KeyValues:
    """Arguments of file.keyvalue that decide what the text becomes."""

    pairs: Tuple[Tuple[str, Any], ...]
    separator: str = "="
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    #: Lines of each key that are kept; negative: all that are no comments.
    count: int = 1
    #: Characters of a comment; None takes leading white space for one.
    uncomment: Optional[str] = None
    key_ignore_case: bool = False
    value_ignore_case: bool = False
    #: Remove the lines of all other keys.
    prune: bool = False


@dataclass
class KeyValueOutcome:
    """The new text and what is told of it."""

    lines: List[str]
    #: Lines of the change, each with its sign and end.
    diff: List[str]
    changed: int = 0
    deleted: int = 0

    def replace(self, old: str, new: str, shown: str) -> None:
        """Take *new* in place of the line *old*; both "" for none."""
        if old:
            self.diff.append(f"- {old}")
        if new:
            self.diff.append(f"+ {shown}")
            self.lines.append(new)
        self.changed += 1


def _folded(text: str, ignore_case: bool) -> str:
    return text.lower() if ignore_case else text


def _pair_of(bare: str, wanted: KeyValues) -> Optional[Tuple[str, Any]]:
    """Return the (key, value) that a line without its comment sign is about."""
    name, mark, _ = bare.partition(wanted.separator)
    if mark:
        for key, value in wanted.pairs:
            if _folded(name, wanted.key_ignore_case) == _folded(key, wanted.key_ignore_case):
                return key, value
    return None


def _same(bare: str, value: Any, wanted: KeyValues) -> bool:
    found = bare.partition(wanted.separator)[2].strip()
    fold = wanted.value_ignore_case
    return _folded(found, fold) == _folded(str(value).strip(), fold)


def _line(name: str, value: Any, wanted: KeyValues) -> str:
    return f"{name}{wanted.separator}{value}\n"


def _shown(line: str, value: Any) -> str:
    """Return the line as the diff shows it, which tells what was no text."""
    return (
        line if isinstance(value, str) else f"{line.rstrip()} (from {type(value).__name__} type)\n"
    )


def _is_ours(bare: str, wanted: KeyValues) -> bool:
    fold = wanted.key_ignore_case
    return _folded(bare, fold).startswith(tuple(_folded(key, fold) for key, _ in wanted.pairs))


def _take(outcome: KeyValueOutcome, line: str, wanted: KeyValues, left: Dict[str, int]) -> None:
    """Put one line of the old text into *outcome*, changed, or not at all."""
    bare = line.lstrip(wanted.uncomment)
    pair = _pair_of(bare, wanted)
    if pair is None:
        outcome.lines.append(line)
        return
    key, value = pair
    if len(bare) < len(line):
        change = left[key] > 0
    else:
        change = left[key] == 0 or not _same(bare, value, wanted)
    if not change:
        outcome.lines.append(line)
    else:
        new = _line(bare.partition(wanted.separator)[0], value, wanted) if left[key] else ""
        outcome.replace(line, new, _shown(new, value))
    left[key] -= left[key] > 0


def _add_missing(outcome: KeyValueOutcome, wanted: KeyValues, left: Dict[str, int]) -> None:
    missing = [_line(key, value, wanted) for key, value in wanted.pairs if left[key] > 0]
    if not missing:
        return
    outcome.changed += len(missing)
    if wanted.append_if_not_found:
        if outcome.lines and not outcome.lines[-1].endswith("\n"):
            outcome.lines[-1] += "\n"
        outcome.lines.extend(missing)
        outcome.diff.extend(["- <EOF>\n", *(f"+ {line}" for line in missing), "+ <EOF>\n"])
    else:
        missing.reverse()
        outcome.lines[:0] = missing
        outcome.diff[:0] = ["  <SOF>\n", *(f"+ {line}" for line in missing)]


def with_values(text: str, wanted: KeyValues) -> KeyValueOutcome:
    """Return *text* with every key set; a key without a line is added only when asked for."""
    outcome = KeyValueOutcome([], [])
    left = {key: wanted.count for key, _ in wanted.pairs}
    pruned = []
    for line in text.splitlines(True):
        if wanted.prune and not _is_ours(line.lstrip(wanted.uncomment), wanted):
            pruned.append(f"- {line}")
        else:
            _take(outcome, line, wanted, left)
    if wanted.append_if_not_found or wanted.prepend_if_not_found:
        _add_missing(outcome, wanted, left)
    outcome.deleted = len(pruned)
    outcome.diff[1:1] = reversed(pruned)
    return outcome
