"""Comparison of what a test got with what it expects; no I/O."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.cli.testing.model import UNSET, KitTest, Mismatch, StateExpectation
from catena.core.suggest import nearest
from catena.core.types import SourceLine
from catena.states.compiler.model import Low

#: Maximum number of characters of a value, and of lines of an error, in a message.
_SHOWN = 300
_LINES = 12


def text_of(value: Any) -> str:
    """Return a value for a message, on one line."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def compare_error(test: KitTest, error: str) -> Iterator[Mismatch]:
    """Yield what is wrong with the error that happened; "" means that none did."""
    wanted = test.expected.error
    if wanted is None and error:
        yield Mismatch(test.place, _shortened(error))
    elif wanted is not None and not error:
        yield Mismatch(
            test.line("error"), f"expected the error {text_of(wanted)}, but none happened"
        )
    elif wanted is not None and wanted not in error:
        text = f"expected the error {text_of(wanted)}, got: {_shortened(error)}"
        yield Mismatch(test.line("error"), text)


def _shortened(error: str) -> str:
    lines = error.splitlines()
    more = [f"… and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more])


def compare_states(test: KitTest, lows: Sequence[Low]) -> Iterator[Mismatch]:
    """Yield which expectations the states of an SLS file, in run order, do not meet."""
    expected = test.expected
    matched: List[Low] = []
    for wanted in expected.states:
        found = _find(wanted, lows)
        if wanted.absent:
            for low in found[:1]:
                text = f"state {wanted.id!r} is there ({_label(low)}, {low.line})"
                yield Mismatch(wanted.place, text)
        elif not found:
            yield Mismatch(wanted.place, _missing(wanted, lows))
        else:
            matched.append(found[0])
            yield from _arguments(wanted, found)
    if expected.count is not None and expected.count != len(lows):
        text = f"expected {expected.count} states, got {len(lows)}: {_list(lows)}"
        yield Mismatch(test.line("count"), text)
    known = {(low.id, low.state, low.fun) for low in matched}
    others = [low for low in lows if (low.id, low.state, low.fun) not in known]
    if expected.only and others:
        yield Mismatch(test.line("only"), f"further states: {_list(others)}")
    if expected.in_order:
        yield from _order(test, matched, lows)


def _find(wanted: StateExpectation, lows: Sequence[Low]) -> List[Low]:
    def fits(low: Low) -> bool:
        module, _, function = wanted.function.partition(".")
        return low.id == wanted.id and module in ("", low.state) and function in ("", low.fun)

    return [low for low in lows if fits(low)]


def _missing(wanted: StateExpectation, lows: Sequence[Low]) -> str:
    same = [low for low in lows if low.id == wanted.id]
    if same:
        return f"state {wanted.id!r} is {_label(same[0])} ({same[0].line}), not {wanted.function}"
    near = nearest(wanted.id, {low.id for low in lows})
    hint = f"; did you mean {near!r}?" if near else f"; there are: {_list(lows)}"
    return f"no state {wanted.id!r}{hint}"


def _arguments(wanted: StateExpectation, found: Sequence[Low]) -> Iterator[Mismatch]:
    """Yield the arguments that differ; of states with several names, one has to have them all."""
    differences = [tuple(_differences(wanted, low)) for low in found]
    if all(differences):
        yield from min(differences, key=len)


def _differences(wanted: StateExpectation, low: Low) -> Iterator[Mismatch]:
    given = {**low.args, **low.keywords, "name": low.name}
    for key, (value, place) in wanted.arguments.items():
        of = f"state {wanted.id!r} ({_label(low)}, {low.line})"
        if key not in given:
            near = nearest(key, given, 0.75)
            hint = f"; did you mean {near!r}?" if near else ""
            yield Mismatch(place, f"{of} has no argument {key!r}{hint}")
        elif not same(given[key], value):
            yield Mismatch(
                place, f"{of} has {key}: {text_of(given[key])}, expected {text_of(value)}"
            )


def same(got: Any, wanted: Any) -> bool:
    """Return whether two values are equal; 1 and True are not."""
    if isinstance(got, Mapping) and isinstance(wanted, Mapping):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in wanted)
    if isinstance(got, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    return isinstance(got, bool) == isinstance(wanted, bool) and bool(got == wanted)


def _order(test: KitTest, matched: Sequence[Low], lows: Sequence[Low]) -> Iterator[Mismatch]:
    places = [lows.index(low) for low in matched]
    for first, second in zip(range(len(places)), range(1, len(places))):
        if places[first] > places[second]:
            text = f"state {matched[second].id!r} runs before {matched[first].id!r}"
            yield Mismatch(test.line("in_order"), text)
            return


def _label(low: Low) -> str:
    return f"{low.state}.{low.fun}"


def _list(lows: Sequence[Low]) -> str:
    names = [f"{low.id!r} ({_label(low)})" for low in lows[:20]]
    more = [f"and {len(lows) - 20} more"] if len(lows) > 20 else []
    return ", ".join([*names, *more]) or "none"


def compare_value(test: KitTest, value: Any) -> Iterator[Mismatch]:
    """Yield the difference of a returned value."""
    wanted = test.expected.value
    if wanted is not UNSET and not same(value, wanted):
        yield Mismatch(test.line("value"), f"got {text_of(value)}, expected {text_of(wanted)}")


def compare_row(test: KitTest, row: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Yield the differences of a state's result."""
    expected = test.expected
    pairs: Tuple[Tuple[str, Any], ...] = (
        ("result", expected.result),
        ("changes", expected.changes),
    )
    comment = str(row.get("comment", ""))
    for key, wanted in pairs:
        if wanted is not UNSET and not same(row.get(key), wanted):
            text = f"{key}: got {text_of(row.get(key))}, expected {text_of(wanted)}"
            yield Mismatch(test.line(key), f"{text}; comment: {_shortened(comment)}")
    if expected.comment not in comment:
        text = f"comment: got {text_of(comment)}, expected {text_of(expected.comment)} in it"
        yield Mismatch(test.line("comment"), text)


def place_text(place: Optional[SourceLine]) -> str:
    """Return a place as FILE:LINE."""
    return str(place) if place is not None else ""
