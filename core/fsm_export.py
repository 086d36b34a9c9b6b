"""Writes life cycles as Mermaid, Graphviz (DOT) and JSON."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from catena.core.fsm import Kind, Machine, Row

#: Graphviz shape of a state of each kind.
_SHAPES = {
    Kind.working: "shape=box",
    Kind.wait: "shape=box, style=dashed",
    Kind.hold: "shape=octagon",
    Kind.failure: "shape=box, color=red",
    Kind.stable: "shape=ellipse",
    Kind.final: "shape=ellipse, peripheries=2",
}


def mermaid(machine: Machine[Any, Any]) -> str:
    """Return *machine* as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.value}" for state in machine.states if state in machine.initial]
    lines += [
        f"    {row.source.value} --> {row.target.value}: {_label(row)}"
        for row in machine.rows.values()
    ]
    return "\n".join(lines) + "\n"


def dot(machine: Machine[Any, Any]) -> str:
    """Return *machine* as a directed graph for Graphviz: `dot -Tsvg`.

    The shape of a node shows the kind of the state; a bold border marks an initial state.
    """
    lines = [f"digraph {_quoted(machine.name)} {{"]
    for state, kind in machine.states.items():
        style = _SHAPES[kind] + (", penwidth=3" if state in machine.initial else "")
        lines.append(f"    {_quoted(state.value)} [{style}];")
    for row in machine.rows.values():
        ends = f"{_quoted(row.source.value)} -> {_quoted(row.target.value)}"
        lines.append(f"    {ends} [label={_quoted(_label(row))}];")
    return "\n".join([*lines, "}"]) + "\n"


def as_json(machine: Machine[Any, Any]) -> str:
    """Return *machine* as a JSON object: name, states, transitions.

    A state has `name`, `kind`, `initial` and `default_target` (null where it has none). A
    transition has `from`, `event`, `to`, `actors` and `why`.
    """
    states = [
        {
            "name": state.value,
            "kind": kind.value,
            "initial": state in machine.initial,
            "default_target": _value(machine.default_targets.get(state)),
        }
        for state, kind in machine.states.items()
    ]
    transitions = [
        {
            "from": row.source.value,
            "event": row.event.value,
            "to": row.target.value,
            "actors": [actor.value for actor in row.actors],
            "why": row.why,
        }
        for row in machine.rows.values()
    ]
    found = {"name": machine.name, "states": states, "transitions": transitions}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _label(row: Row[Any, Any]) -> str:
    return f"{row.event.value} ({', '.join(actor.value for actor in row.actors)})"


def _quoted(text: str) -> str:
    """Return *text* as a quoted DOT string, in which only the quotation mark is escaped."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(state: Any) -> Any:
    return state.value if isinstance(state, Enum) else None
