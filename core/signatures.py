"""Parameters of a function, read from its code object.

`inspect` does this for any callable, but its imports (Python's parser and disassembler) take a
tenth of a short job. Here it is used only for callables that are not plain functions.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, Callable, Iterator, Tuple

from catena.core.frozen import dataclass

#: Stands for the default of a parameter without one.
REQUIRED: Any = type("Required", (), {"__repr__": lambda _: "REQUIRED"})()

_MANY = 0x04
_MANY_NAMED = 0x08


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function."""

    name: str
    #: Accepts a positional argument.
    by_place: bool
    #: Accepts a keyword argument.
    by_name: bool
    #: Accepts any number of arguments: *args (positional) or **kwargs (keyword).
    many: bool = False
    default: Any = REQUIRED

    @property
    def is_required(self) -> bool:
        """Return whether a call without it fails."""
        return self.default is REQUIRED and not self.many


def parameters(call: Callable[..., Any]) -> Tuple[Parameter, ...]:
    """Return the parameters of *call*, in order.

    Raises:
        TypeError: *call* is not callable.
        ValueError: its signature is unknown.
    """
    if isinstance(call, FunctionType) and not vars(call).keys() & {"__wrapped__", "__signature__"}:
        return tuple(_of_function(call))
    return tuple(_inspected(call))


def _of_function(call: FunctionType) -> Iterator[Parameter]:
    code = call.__code__
    placed, only_named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    defaults = call.__defaults__ or ()
    values = dict(zip(names[placed - len(defaults) : placed], defaults))
    for index, name in enumerate(names[:placed]):
        by_name = index >= code.co_posonlyargcount
        yield Parameter(name, True, by_name, default=values.get(name, REQUIRED))
    end = placed + only_named
    if code.co_flags & _MANY:
        yield Parameter(names[end], True, False, many=True)
        end += 1
    values = call.__kwdefaults__ or {}
    for name in names[placed : placed + only_named]:
        yield Parameter(name, False, True, default=values.get(name, REQUIRED))
    if code.co_flags & _MANY_NAMED:
        yield Parameter(names[end], False, True, many=True)


def _inspected(call: Callable[..., Any]) -> Iterator[Parameter]:
    import inspect

    for one in inspect.signature(call).parameters.values():
        yield Parameter(
            one.name,
            one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL),
            one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_KEYWORD),
            one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD),
            REQUIRED if one.default is one.empty else one.default,
        )
