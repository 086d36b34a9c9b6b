"""The mark that makes a method the handler of a verb, and the table made of all marks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from catena.client.requests import contracts
from catena.client.requests.contract import AnyAsk, Ask
from catena.core.errors import NotFoundError, UsageError
from catena.master.requests.rights import Caller, Right

Q = TypeVar("Q")
M = TypeVar("M")

_MARK = "__catena_verb__"


@dataclass(frozen=True, slots=True)
class End:
    """The last thing that a stream yields: the value of its reply."""

    value: Any


@dataclass(frozen=True, slots=True)
class Aside:
    """A stream item that may be sent together with the item that follows it."""

    value: Any


Reply = Awaitable[Any]
#: Items, with an End at most once, last.
Stream = AsyncIterator[Any]
Answer = Reply | Stream
Handler = Callable[[Caller, Any], Answer]


@dataclass(frozen=True, slots=True)
class _Mark:
    ask: AnyAsk
    right: Right
    repeats: bool


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb as the dispatcher serves it."""

    ask: AnyAsk
    right: Right
    handler: Handler
    #: Whether the handler itself gives a repetition the first answer.
    repeats: bool = False


def verb(
    ask: Ask[Q, Any, Any], right: Right, *, repeats: bool = False
) -> Callable[[Callable[[M, Caller, Q], Answer]], Callable[[M, Caller, Q], Answer]]:
    """Mark a method as the handler of a verb.

    Args:
        ask: the verb's contract.
        right: what a caller needs; the method is not called without it.
        repeats: the method itself gives a repetition (`caller.once`) the first answer. Otherwise
            the dispatcher looks for a recorded answer before it calls the method.
    """

    def mark(method: Callable[[M, Caller, Q], Answer]) -> Callable[[M, Caller, Q], Answer]:
        setattr(method, _MARK, _Mark(ask, right, repeats))
        return method

    return mark


def table(owners: Iterable[object]) -> Mapping[str, Verb]:
    """Return every verb by name, with the methods of *owners* as handlers.

    Raises:
        UsageError: two methods handle one verb, or a mark names no right.
        NotFoundError: a contract has no handler, or a handler no contract.
    """
    found: dict[str, Verb] = {}
    for owner in owners:
        for method in vars(type(owner)).values():
            mark = getattr(method, _MARK, None)
            if mark is None:
                continue
            name = mark.ask.name
            if name in found:
                raise UsageError(f"two handlers of the verb {name}")
            if not isinstance(mark.right, Right):
                raise UsageError(f"the handler of {name} names no right")
            bound = method.__get__(owner)
            found[name] = Verb(mark.ask, mark.right, bound, mark.repeats)
    known = contracts()
    if known.keys() ^ found.keys():
        without, strange = known.keys() - found.keys(), found.keys() - known.keys()
        raise NotFoundError(
            f"verbs without a handler: {sorted(without)}; without a contract: {sorted(strange)}"
        )
    return found
