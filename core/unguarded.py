"""What test mode can't hold back, counted: a site's own states, and commands in conditions.

The guard of test mode (`core.dry_run`) covers what catena brings. A custom state asks for test
mode itself, or does not; a command of `onlyif`, `unless` or `check_cmd` runs in test mode too,
because it decides what a state would do. A row of a run in test mode counts those that it met.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

from catena.core.frozen import dataclass

#: Where the row of a state keeps its counts; absent where nothing was outside the guard.
KEY = "__unguarded__"


@dataclass(frozen=True)
class Unguarded:
    """How much of a run the guard of test mode does not cover."""

    custom_states: int = 0
    commands: int = 0

    def __add__(self, other: Unguarded) -> Unguarded:
        return Unguarded(self.custom_states + other.custom_states, self.commands + other.commands)

    def __bool__(self) -> bool:
        return bool(self.custom_states or self.commands)

    def as_dict(self) -> Dict[str, int]:
        """Return the counts for a row, under KEY."""
        return {"custom_states": self.custom_states, "commands": self.commands}

    def sentence(self) -> str:
        """Return the counts in words, or "" where everything is guarded."""
        parts = [
            f"{number} {what}{'' if number == 1 else 's'}{where}"
            for number, what, where in (
                (self.custom_states, "custom state", ""),
                (self.commands, "command", " in onlyif, unless and check_cmd"),
            )
            if number
        ]
        verb = "is" if self.custom_states + self.commands == 1 else "are"
        return f"{' and '.join(parts)} {verb} outside the guard of test mode" if parts else ""


def total(rows: Mapping[str, Any]) -> Unguarded:
    """Return the counts of a state run's rows, and of the runs that its rows hold.

    Args:
        rows: as a minion sent them: what has another shape counts nothing.
    """
    found = Unguarded()
    for row in rows.values():
        if isinstance(row, Mapping):
            found += _counts(row.get(KEY))
            for inner in _runs(row.get("changes")):
                found += total(inner)
    return found


def _counts(told: Any) -> Unguarded:
    if not isinstance(told, Mapping):
        return Unguarded()
    numbers = (told.get("custom_states"), told.get("commands"))
    return Unguarded(*(one if type(one) is int and one > 0 else 0 for one in numbers))


def _runs(changes: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the state run that a function's value is, as an action of a chain returns it."""
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    if isinstance(inner, Mapping):
        yield inner
