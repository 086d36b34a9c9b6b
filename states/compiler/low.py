"""Turn declarations into low states: one per call, with name, order and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict, Iterator, List, Optional, Sequence

from catena.core.types import SourceLine
from catena.states.compiler.faults import at
from catena.states.compiler.model import KEYWORDS, Declaration, Low, Order, StateLine

#: Distance from the highest order of a run to the base of `order: last` and negative orders.
_BEHIND = 1000000
_CAP_STEP = 100
#: The orders of states of one `names` list increase by 1 / 10000.
_NAMES_STEP = 10000


def low_states(states: Sequence[Declaration], errors: List[str]) -> List[Low]:
    """Return the low states of *states* in declaration order; append problems to *errors*."""
    calls = [call for one in states for call in _calls(one, errors)]
    cap = _cap(calls)
    return [_low(call, cap, place) for place, call in enumerate(calls)]


class _Call:
    """One call of a declaration from which a Low is made."""

    __slots__ = ("arguments", "declaration", "fun", "name", "step")

    def __init__(
        self, declaration: Declaration, fun: str, name: str, arguments: Dict[str, Any], step: int
    ) -> None:
        self.declaration = declaration
        self.fun = fun
        self.name = name
        self.arguments = arguments
        #: Position in the `names` list, from 1; 0 without a list.
        self.step = step


def called(one: Declaration, errors: List[str]) -> Optional[str]:
    """Return the function of a declaration; None, with an error, if it names none or several."""
    functions = [item for item in one.items if isinstance(item, str)]
    if len(functions) != 1:
        what = "Too many functions" if functions else "No function declared"
        listed = f": {', '.join(functions)}" if functions else f" for {one.state}"
        glued = next((text for text in functions if ":" in text), "")
        hint = f"; a space is missing behind the ':' of {glued!r}" if glued else ""
        line = one.line.of(glued) if isinstance(one.line, StateLine) and glued else one.line
        errors.append(f"{what} in state '{one.id}' in SLS '{one.sls}'{listed}{hint}{at(line)}")
        return None
    return functions[0]


def _calls(one: Declaration, errors: List[str]) -> Iterator[_Call]:
    fun = called(one, errors)
    if fun is None:
        return
    arguments: Dict[str, Any] = {}
    for item in one.items:
        if type(item) is dict or isinstance(item, Mapping):
            arguments.update(item)
    if one.position is not None:
        arguments["order"] = one.position
    # Arguments must not override the function that the declaration names.
    arguments.pop("state", None)
    arguments.pop("fun", None)
    names = arguments.pop("names", None)
    name = arguments.pop("name", one.id)
    if not isinstance(name, str):
        name = one.id
    if names is None:
        yield _Call(one, fun, name, arguments, 0)
        return
    for step, (each, own) in enumerate(_names(names).items(), 1):
        yield _Call(one, fun, each, {**arguments, **own}, step)


def _names(names: Sequence[Any]) -> Dict[str, Dict[str, Any]]:
    found: Dict[str, Dict[str, Any]] = {}
    for entry in names:
        if not isinstance(entry, Mapping):
            found.setdefault(str(entry), {})
            continue
        for name, own in entry.items():
            arguments = found.setdefault(str(name), {})
            for part in own if isinstance(own, list) else [own]:
                if isinstance(part, Mapping):
                    arguments.update(part)
    return found


def _cap(calls: Sequence[_Call]) -> int:
    cap = 1
    for call in calls:
        order = call.arguments.get("order", call.declaration.position)
        if isinstance(order, int) and order > max(cap - 1, 0):
            cap = order + _CAP_STEP
    return cap


def _written(order: Any, cap: int) -> Order:
    """Return an `order` as a number."""
    if order == "first":
        return 0
    if order == "last":
        return cap + _BEHIND
    if isinstance(order, (int, float)) and not isinstance(order, bool):
        return order
    return cap


def _final(written: Order, step: int, cap: int) -> Order:
    value = written + step / _NAMES_STEP if step else written
    return value + cap + _BEHIND if value < 0 else value


def _low(call: _Call, cap: int, place: int) -> Low:
    one = call.declaration
    args: Dict[str, Any] = {}
    keywords: Dict[str, Any] = {}
    order: Any = one.position
    for key, value in call.arguments.items():
        if key == "order":
            order = value
        elif key in KEYWORDS:
            keywords[key] = value
        else:
            args[key] = value
    written = _written(order, cap)
    return Low(
        state=one.state,
        fun=call.fun,
        id=one.id,
        name=call.name,
        sls=one.sls,
        env=one.env,
        order=_final(written, call.step, cap),
        args=args,
        keywords=keywords,
        line=one.line,
        included_from=one.included_from,
        written_order=written,
        declared=place,
    )


def low_from_chunk(chunk: Mapping[str, Any], line: Optional[SourceLine] = None) -> Low:
    """Return one Low from Salt's low chunk (state.low).

    Args:
        chunk: `state` and `fun` at least; `name` is the id when missing.
        line: source line, if it is known.
    """
    rest = {key: value for key, value in chunk.items() if not key.startswith("__")}
    state, fun = str(rest.pop("state")), str(rest.pop("fun"))
    name = str(rest.pop("name", chunk.get("__id__", "")))
    order = rest.pop("order", 0)
    return Low(
        state=state,
        fun=fun,
        id=str(chunk.get("__id__", name)),
        name=name,
        sls=chunk.get("__sls__"),
        env=str(chunk.get("__env__", "base")),
        order=order,
        args={key: value for key, value in rest.items() if key not in KEYWORDS},
        keywords={key: value for key, value in rest.items() if key in KEYWORDS},
        line=line or SourceLine(""),
    )
