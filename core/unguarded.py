"""Counts what test mode cannot prevent: a site's own states, and commands in conditions.

The guard of test mode (`core.dry_run`) covers catena's own states. Custom states must check test
mode itself. A command in `onlyif`, `unless` or `check_cmd` runs in test mode too, because it
decides what a state would do. A state's row in test mode contains the counts of both.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

from catena.core.frozen import dataclass

#: Key of the counts in a state's row; absent if everything was guarded.
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
        """Return the counts as a sentence, or "" if everything was guarded."""
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
    """Return the sum of the counts in a state run's rows, including nested runs.

    Args:
        rows: as sent by a minion; data of another form counts as nothing.
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
    """Yield the state run inside a function's value, as an action of a chain returns it."""
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    if isinstance(inner, Mapping):
        yield inner
