"""Turn rendered data into declarations: expand short forms, check shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from catena.core.frozen import dataclass
from catena.core.types import SourceLine
from catena.states.compiler.faults import at
from catena.states.compiler.model import REQUISITES, Declaration, StateLine, sets_order

#: Arguments whose values must have a certain shape.
_CHECKED = REQUISITES | {"names"}
#: Order of the first state of a run without an `order` of its own.
FIRST_POSITION = 10000


class Positions:
    """Numbers the states of a run that have no `order` of their own."""

    def __init__(self) -> None:
        self._next = FIRST_POSITION

    def take(self) -> int:
        """Return the next position."""
        self._next += 1
        return self._next - 1


@dataclass(frozen=True)
class Origin:
    """The SLS file of rendered data."""

    sls: Any
    env: str
    #: Returns the source line of a path in the data.
    place: Callable[..., SourceLine]
    #: None: states get no position (state.high, extend).
    positions: Optional[Positions] = None


def declare(data: Mapping[Any, Any], origin: Origin, errors: List[str]) -> List[Declaration]:
    """Return the declarations of one SLS file's data; append problems to *errors*."""
    found: List[Declaration] = []
    for id_, body in data.items():
        if not isinstance(id_, str):
            errors.append(
                f"ID '{id_}' in SLS '{origin.sls}' is not formed as a string, but is a "
                f"{type(id_).__name__}; put it in quotes{at(origin.place(id_))}"
            )
        elif isinstance(body, str) and "." in body:
            state, fun = body.split(".")[:2]
            line = StateLine((), partial(origin.place, id_))
            found.append(_declaration(id_, state, (fun,), line, origin))
        elif not isinstance(body, Mapping):
            dotted = isinstance(body, list) and "." in id_
            hint = "; is it a state, to be indented below its id?" if dotted else ""
            errors.append(
                f"ID {id_} in SLS {origin.sls} is not a dictionary{hint}{at(origin.place(id_))}"
            )
        elif not id_.startswith("__"):
            found += _body(id_, body, origin, errors)
    return [one for one in found if not one.id.startswith("__")]


def _declaration(
    id_: str, state: str, items: Tuple[Any, ...], place: SourceLine, origin: Origin
) -> Declaration:
    position = None
    if origin.positions and not sets_order(items):
        position = origin.positions.take()
    return Declaration(id_, state, items, origin.sls, origin.env, position, place)


def _body(
    id_: str, body: Mapping[Any, Any], origin: Origin, errors: List[str]
) -> Iterator[Declaration]:
    seen: Set[str] = set()
    pairs: Iterable[Tuple[Any, Any]] = body.items()
    if len(body) > 1:
        # As in Salt, `file.managed:` comes after `pkg:` with the function in its list.
        pairs = sorted(pairs, key=lambda pair: isinstance(pair[0], str) and "." in pair[0])
    for key, items in pairs:
        if isinstance(key, str) and key.startswith("__"):
            continue
        state, _, fun = str(key).partition(".")
        sound = isinstance(items, list) and isinstance(key, str) and state not in seen
        fault = "" if sound else _shape(id_, origin.sls, key, items)
        if fault:
            errors.append(f"{fault}{at(origin.place(id_, key))}")
            continue
        seen.add(state)
        listed = (*items, fun.partition(".")[0]) if fun else tuple(items)
        line = StateLine(items, partial(origin.place, id_, key))
        told = _items(id_, listed, origin.sls, line) if _wants_look(listed) else ()
        faults = [f"{text}{at(where)}" for text, where in told]
        errors += faults
        if not faults:
            yield _declaration(id_, state, listed, line, origin)


def _shape(id_: str, sls: Any, key: Any, items: Any) -> str:
    """Return the errors in the shape of one `module:` of an id."""
    where = f"'{id_}' in SLS '{sls}'"
    if items is None:
        return (
            f"ID {where}: {key} has a colon and nothing behind it; "
            f"write `{key}: []` or leave the colon out"
        )
    if not isinstance(items, list) or not isinstance(key, str):
        return f"State {where} is not formed as a list: {key} needs `- name: value` lines below it"
    state = key.partition(".")[0]
    return f"ID {where} contains multiple state declarations of the same type: {state}"


def _wants_look(items: Sequence[Any]) -> bool:
    """Return whether *items* may contain an error; this check is fast and mostly says no."""
    for item in items:
        if type(item) is dict:
            for key in item:
                if type(key) is not str or key in _CHECKED:
                    return True
        elif type(item) is not str or " " in item:
            return True
    return False


#: An error text and its source line.
_Fault = Tuple[str, SourceLine]


def _items(id_: str, items: Sequence[Any], sls: Any, line: StateLine) -> Iterator[_Fault]:
    for item in items:
        if isinstance(item, str):
            if " " in item.strip():
                yield (
                    f"'{item}' of state '{id_}' in SLS '{sls}' has a space in it, so it can't be "
                    "a function; is a ':' missing?",
                    line.of(item),
                )
        elif type(item) is dict or isinstance(item, Mapping):
            for key, value in item.items():
                if type(key) is not str or key in _CHECKED:
                    yield from _argument(f"state '{id_}' in SLS '{sls}'", key, value, line)


def _argument(state: str, key: Any, value: Any, line: StateLine) -> Iterator[_Fault]:
    if not isinstance(key, str):
        yield f"Argument {key!r} of {state} must be a name", line.of(key)
    elif key == "names":
        if not isinstance(value, list):
            yield f"The names argument of {state} is not formed as a list", line.of(key)
    elif key in REQUISITES:
        if not isinstance(value, list):
            yield f"The {key} statement in {state} needs to be formed as a list", line.of(key)
        else:
            yield from _requisites(state, key, value, line)


def _requisites(state: str, key: str, entries: List[Any], line: StateLine) -> Iterator[_Fault]:
    for entry in entries:
        if isinstance(entry, str):
            continue
        pair = next(iter(entry.items())) if isinstance(entry, Mapping) and len(entry) == 1 else ()
        if not pair or not all(isinstance(part, str) for part in pair):
            yield (
                f"{key} of {state}: each entry must be one `module: id` pair or an id; found "
                f"{str(entry)[:80]}",
                line.of(key, entry),
            )
        elif "." in pair[0]:
            module = pair[0].partition(".")[0]
            yield (
                f"Invalid requisite type {pair[0]!r} in {state}: a requisite names a module "
                f"without its function; did you mean {module!r}?",
                line.of(key, entry),
            )
