"""Counts what test mode cannot prevent: a site's states, commands in conditions, template calls.

The guard of test mode (`core.dry_run`) covers catena's own states. Custom states must check test
mode itself. A command in `onlyif`, `unless` or `check_cmd` runs in test mode too, because it
decides what a state would do. So does a function that a template calls, because the rendered text
may depend on it. A state's row in test mode contains the counts; calls of the templates of SLS
files are in the first row of their run.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, MutableMapping, Tuple

from catena.core.frozen import asdict, dataclass, replace
from catena.core.template_calls import CallNotes, TemplateCall

#: Key of the counts in a state's row; absent if everything was guarded.
KEY = "__unguarded__"
#: Maximum number of functions that a sentence names.
_NAMED = 5
#: Maximum length of a name sent by a minion, characters.
_NAME_CHARACTERS = 200


@dataclass(frozen=True)
class Unguarded:
    """How much of a run the guard of test mode does not cover."""

    custom_states: int = 0
    commands: int = 0
    #: Calls of templates to functions that are not marked as reading.
    calls: Tuple[TemplateCall, ...] = ()

    def __add__(self, other: Unguarded) -> Unguarded:
        states = self.custom_states + other.custom_states
        calls = _merged((*self.calls, *other.calls)) if other.calls else self.calls
        return Unguarded(states, self.commands + other.commands, calls)

    def __bool__(self) -> bool:
        return bool(self.custom_states or self.commands or self.calls)

    def as_dict(self) -> Dict[str, Any]:
        """Return the counts for a row, under KEY."""
        found: Dict[str, Any] = {"custom_states": self.custom_states, "commands": self.commands}
        if self.calls:
            found["calls"] = [asdict(call) for call in self.calls]
        return found

    def sentence(self) -> str:
        """Return the counts as a sentence, or "" if everything was guarded."""
        calls = sum(call.number for call in self.calls)
        parts = [
            f"{number} {what}{'' if number == 1 else 's'}{where}"
            for number, what, where in (
                (self.custom_states, "custom state", ""),
                (self.commands, "command", " in onlyif, unless and check_cmd"),
                (calls, "call", f" in templates ({_names(self.calls)})"),
            )
            if number
        ]
        verb = "is" if self.custom_states + self.commands + calls == 1 else "are"
        listed = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
        return f"{listed} {verb} outside the guard of test mode" if parts else ""


def _merged(calls: Tuple[TemplateCall, ...]) -> Tuple[TemplateCall, ...]:
    notes = CallNotes()
    for call in calls:
        notes.add(call)
    return notes.calls()


def _names(calls: Tuple[TemplateCall, ...]) -> str:
    named = [
        f"{call.function} in {call.file}{f', {call.number} times' if call.number > 1 else ''}"
        for call in calls[:_NAMED]
    ]
    rest = len(calls) - len(named)
    return "; ".join([*named, *([f"and {rest} more"] if rest else [])])


def add_to(row: MutableMapping[str, Any], more: Unguarded) -> None:
    """Add *more* to the counts of a state's row, if it counts anything."""
    if more:
        row[KEY] = (_counts(row.get(KEY)) + more).as_dict()


def carry_over(row: MutableMapping[str, Any], before: Mapping[str, Any]) -> None:
    """Add to *row* the counts of *before*, an earlier row of the same state in the same run."""
    first, own = _counts(before.get(KEY)), _counts(row.get(KEY))
    # Both calls are of one state.
    states = max(first.custom_states - own.custom_states, 0)
    add_to(row, replace(first, custom_states=states))


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
    calls = told.get("calls")  # older agents do not count them
    return Unguarded(
        _number(told.get("custom_states")),
        _number(told.get("commands")),
        tuple(_calls(calls)) if isinstance(calls, list) else (),
    )


def _number(told: Any) -> int:
    return told if type(told) is int and told > 0 else 0


def _calls(told: Any) -> Iterator[TemplateCall]:
    for one in told:
        if isinstance(one, Mapping) and _number(one.get("number")):
            function, file = (_name(one.get(key)) for key in ("function", "file"))
            yield TemplateCall(function, file, one["number"])


def _name(told: Any) -> str:
    """Return a name sent by a minion as text that is safe on a terminal."""
    return "".join(one if one.isprintable() else "?" for one in str(told)[:_NAME_CHARACTERS])


def _runs(changes: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the state run inside a function's value, as an action of a chain returns it."""
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    if isinstance(inner, Mapping):
        yield inner
