"""The mark of a verb's handler, and the table of all marked handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from catena.client.requests import contracts
from catena.client.requests.contract import AnyAsk, Ask
from catena.core.errors import NotFoundError, UsageError
from catena.master.requests.rights import Caller, Right

Q = TypeVar("Q")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item
V = TypeVar("V", covariant=True)
M = TypeVar("M")

_MARK = "__catena_verb__"


@dataclass(frozen=True, slots=True)
class End(Generic[V]):
    """The last item of a stream: its reply."""

    value: V


@dataclass(frozen=True, slots=True)
class Aside(Generic[V]):
    """A stream item that may be sent together with the item that follows it."""

    value: V


#: The reply record of a contract.
Reply: TypeAlias = Awaitable[A]
#: The item records of a contract, with an End at most once, last.
Stream: TypeAlias = AsyncIterator[I | Aside[I] | End[A]]
Answer: TypeAlias = Reply[A] | Stream[I, A]
Handler: TypeAlias = Callable[[Caller, Any], Answer[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Mark:
    ask: AnyAsk
    right: Right
    repeats: bool


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb with its handler."""

    ask: AnyAsk
    right: Right
    handler: Handler
    #: Whether the handler itself returns the first answer for a repetition.
    repeats: bool = False


def verb(
    ask: Ask[Q, A, I], right: Right, *, repeats: bool = False
) -> Callable[[Callable[[M, Caller, Q], Answer[A, I]]], Callable[[M, Caller, Q], Answer[A, I]]]:
    """Mark a method as the handler of a verb; it returns the records of the contract.

    Args:
        ask: the verb's contract.
        right: required of the caller; without it the method is not called.
        repeats: whether the method itself returns the first answer for a repetition
            (`caller.once`). Otherwise the dispatcher first looks for a recorded answer.
    """

    def mark(
        method: Callable[[M, Caller, Q], Answer[A, I]],
    ) -> Callable[[M, Caller, Q], Answer[A, I]]:
        setattr(method, _MARK, _Mark(ask, right, repeats))
        return method

    return mark


def table(owners: Iterable[object]) -> Mapping[str, Verb]:
    """Return every verb by name, with the methods of *owners* as handlers.

    Raises:
        UsageError: a verb has two handlers, or a mark names no right.
        NotFoundError: a contract has no handler, or a handler has no contract.
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
