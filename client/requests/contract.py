"""The contract of one verb: what a client asks and what the master answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Tuple, Type, TypeVar, overload

from catena.core.frozen import dataclass

Q = TypeVar("Q")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item


@dataclass(frozen=True)
class Ask(Generic[Q, A, I]):
    """One verb of the master.

    A module of this package holds the contracts of the verbs that begin with its name ("job.run"
    is in `jobs`), each as a constant beside its records. Nothing else lists verbs: the master
    collects the contracts and refuses to start when one of them has no handler.
    """

    name: str
    #: The record that carries the arguments.
    request: Type[Q]
    #: What the master answers: a record, or a list or mapping of records.
    reply: Type[A]
    #: Types of the items that come before the reply; (): the reply is the whole answer.
    streams: Tuple[Type[I], ...] = ()
    #: Whether the request changes nothing. Any other request gets a key from the client, so that
    #: it takes effect once although the client repeats it after a lost answer.
    idempotent: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Ask[Q, A, NoReturn],
            name: str,
            request: Type[Q],
            reply: Type[A],
            *,
            idempotent: bool = ...,
        ) -> None: ...

        @overload
        def __init__(
            self,
            name: str,
            request: Type[Q],
            reply: Type[A],
            streams: Tuple[Type[I], ...],
            idempotent: bool = ...,
        ) -> None: ...

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...


#: A contract of any types.
AnyAsk = Ask[Any, Any, Any]
