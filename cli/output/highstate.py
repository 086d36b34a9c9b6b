"""State runs as in Salt: one block per state, failures last, a summary."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from catena.cli.output.nested import nested, tree
from catena.cli.output.style import FULL, StateStyle
from catena.cli.output.text import paint, printable
from catena.core import unguarded

_RULE = "----------"
_INDENT = 14


def is_state_run(value: Any) -> bool:
    """Return whether *value* has the form of a state run's result."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(
            isinstance(ret, Mapping) and "result" in ret and str(key).count("_|-") == 3
            for key, ret in value.items()
        )
    )


def highstate(minion: str, value: Any, colour: bool, style: StateStyle = FULL) -> str:
    """Return the text of a state run; compile errors as a list; any other value nested."""
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        lines = [paint(f"{minion}:", "light_red", colour)]
        lines += [f"    {line}" for error in value for line in printable(error).splitlines()]
        return "\n".join(lines)
    if value == {}:
        head = paint(f"{minion}:", "light_red", colour)
        return f"{head}\n    No states: the requested files render to nothing."
    if not is_state_run(value):
        return nested(minion, value, colour)
    return "\n".join(
        [paint(f"{minion}:", _run_colour(value), colour), *_run(minion, value, colour, style)]
    )


def _run_colour(states: Mapping[str, Mapping[str, Any]]) -> str:
    results = [state.get("result") for state in states.values()]
    if any(result is False for result in results):
        return "light_red"
    return "yellow" if any(result is None for result in results) else "cyan"


def _run(
    minion: str, states: Mapping[str, Mapping[str, Any]], colour: bool, style: StateStyle
) -> Iterator[str]:
    ordered = sorted(
        states.items(),
        key=lambda item: (item[1].get("result") is False, item[1].get("__run_num__", 0)),
    )
    for key, state in ordered:
        if not style.shows(state):
            continue
        if style.in_full(state):
            yield from _block(key, state, colour)
        else:
            yield _line(key, state, colour, style.by_id)
    yield ""
    yield from _summary(minion, states, colour)


def _hue(state: Mapping[str, Any]) -> str:
    unchanged = "cyan" if state.get("changes") else "green"
    return {True: unchanged, None: "yellow"}.get(state.get("result"), "light_red")


def _line(key: str, state: Mapping[str, Any], colour: bool, by_id: bool) -> str:
    """Return a state on one line, like Salt's terse output."""
    module, ident, name, function = (printable(part) for part in key.split("_|-", 3))
    word = {True: "Changed" if state.get("changes") else "Clean", None: "Differs"}.get(
        state.get("result"), "Failed"
    )
    text = f"  Name: {ident if by_id else name} - Function: {module}.{function} - Result: {word}"
    times = f" Started: - {state.get('start_time', '')} Duration: {_duration(state)}"
    return paint(printable(text + times), _hue(state), colour)


def _block(key: str, state: Mapping[str, Any], colour: bool) -> Iterator[str]:
    module, ident, name, function = (printable(part) for part in key.split("_|-", 3))
    result = state.get("result")
    changes = state.get("changes") or {}
    hue = _hue(state)
    yield paint(_RULE, hue, colour)
    rows = [("ID", state.get("__id__") or ident), ("Function", f"{module}.{function}")]
    if name != ident:
        rows.append(("Name", state.get("name", name)))
    rows += [("Result", result), ("Comment", state.get("comment", ""))]
    rows += [("Started", state.get("start_time", "")), ("Duration", _duration(state))]
    for label, text in rows:
        if text != "":
            yield from _row(label, text, hue, colour)
    for warning in state.get("warnings") or ():
        yield from _row("Warning", warning, "yellow", colour)
    yield paint(f"{'Changes':>{_INDENT - 2}}:", hue, colour)
    yield from _changes(changes, colour)


def _row(label: str, text: Any, hue: str, colour: bool) -> Iterator[str]:
    first, *rest = printable(str(text)).splitlines() or [""]
    yield paint(f"{label:>{_INDENT - 2}}: {first}", hue, colour)
    for line in rest:
        yield paint(f"{'':{_INDENT}}{line}", hue, colour)


def _changes(changes: Any, colour: bool) -> Iterator[str]:
    if not changes:
        return
    inner = changes.get("ret") if isinstance(changes, Mapping) else None
    if inner is not None and is_state_run(inner):
        # An action of a chain contains a state run.
        for line in _run("this action", inner, colour, FULL):
            yield f"{'':{_INDENT}}{line}"
        return
    yield from tree(changes, _INDENT, colour)


def _duration(state: Mapping[str, Any]) -> str:
    duration = state.get("duration")
    return f"{duration:.3f} ms" if isinstance(duration, (int, float)) else ""


def _summary(minion: str, run: Mapping[str, Mapping[str, Any]], colour: bool) -> Iterator[str]:
    states = list(run.values())
    failed = sum(state.get("result") is False for state in states)
    waiting = sum(state.get("result") is None for state in states)
    changed = sum(bool(state.get("changes")) for state in states)
    warned = sum(bool(state.get("warnings")) for state in states)
    notes = [f"unchanged={waiting}" if waiting else "", f"changed={changed}" if changed else ""]
    note = ", ".join(text for text in notes if text)
    total = sum(
        s.get("duration", 0) for s in states if isinstance(s.get("duration"), (int, float))
    )
    yield paint(f"Summary for {minion}", "cyan", colour)
    yield paint("------------", "cyan", colour)
    yield paint(
        f"Succeeded: {len(states) - failed}{f' ({note})' if note else ''}", "green", colour
    )
    yield paint(f"Failed:    {failed}", "light_red" if failed else "cyan", colour)
    if warned:
        yield paint(f"Warnings:  {warned}", "yellow", colour)
    outside = unguarded.total(run).sentence()
    if outside:
        yield paint(f"Unguarded: {outside}", "yellow", colour)
    yield paint("------------", "cyan", colour)
    yield paint(f"Total states run:     {len(states)}", "cyan", colour)
    yield paint(f"Total run time:   {total / 1000:.3f} s", "cyan", colour)
