"""Pure functions of file.keyvalue: set values in `key<separator>value` lines.

The rules are Salt's. A key is set when `count` of its lines have the value; further lines of the
key are removed. Commented lines are only used while the key is not set.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class KeyValues:
    """Arguments of file.keyvalue that determine the new text."""

    pairs: Tuple[Tuple[str, Any], ...]
    separator: str = "="
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    #: Number of lines per key to keep; negative: all lines that are no comments.
    count: int = 1
    #: Comment characters; None: leading whitespace counts as a comment.
    uncomment: Optional[str] = None
    key_ignore_case: bool = False
    value_ignore_case: bool = False
    #: Remove the lines of all other keys.
    prune: bool = False


@dataclass
class KeyValueOutcome:
    """The new text and its diff."""

    lines: List[str]
    #: Lines of the diff, each with its sign and line end.
    diff: List[str]
    changed: int = 0
    deleted: int = 0

    def replace(self, old: str, new: str, shown: str) -> None:
        """Replace the line *old* by *new*; "" means no line."""
        if old:
            self.diff.append(f"- {old}")
        if new:
            self.diff.append(f"+ {shown}")
            self.lines.append(new)
        self.changed += 1


def _folded(text: str, ignore_case: bool) -> str:
    return text.lower() if ignore_case else text


def _pair_of(bare: str, wanted: KeyValues) -> Optional[Tuple[str, Any]]:
    """Return the (key, value) of a line without its comment sign."""
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
    """Return the line for the diff, which marks values that were no text."""
    return (
        line if isinstance(value, str) else f"{line.rstrip()} (from {type(value).__name__} type)\n"
    )


def _is_ours(bare: str, wanted: KeyValues) -> bool:
    fold = wanted.key_ignore_case
    return _folded(bare, fold).startswith(tuple(_folded(key, fold) for key, _ in wanted.pairs))


def _take(outcome: KeyValueOutcome, line: str, wanted: KeyValues, left: Dict[str, int]) -> None:
    """Add one line of the old text to *outcome*: unchanged, changed, or not at all."""
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
    """Return *text* with every key set; missing keys are added only if the arguments say so."""
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
