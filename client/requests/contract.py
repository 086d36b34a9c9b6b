"""The contract of one verb: the types of its request, its reply and its stream items."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    NoReturn,
    Optional,
    Tuple,
    Type,
    TypeVar,
    overload,
)

from catena.core.frozen import dataclass

Q = TypeVar("Q")
A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item


@dataclass(frozen=True)
class Ask(Generic[Q, A, I]):
    """One verb of the master.

    A module of this package holds the contracts of the verbs that begin with its name ("job.run"
    is in `jobs`), each as a constant beside its records. No other code lists verbs: the master
    collects the contracts and refuses to start when one of them has no handler.
    """

    name: str
    #: The record that carries the arguments.
    request: Type[Q]
    #: Returns the type of the master's answer: a record, or a list or mapping of records. A
    #: function, because most commands never need the type: they print the undecoded answer.
    reply: Callable[[], Type[A]]
    #: Returns the types of the items that come before the reply; None: the reply is the whole
    #: answer. Where there are several, each has a field `type` whose default says which one it is.
    streams: Optional[Callable[[], Tuple[Type[I], ...]]] = None
    #: Whether the request changes nothing. Any other request gets a key from the client, so that
    #: it takes effect once although the client repeats it after a lost answer.
    idempotent: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Ask[Q, A, NoReturn],
            name: str,
            request: Type[Q],
            reply: Callable[[], Type[A]],
            *,
            idempotent: bool = ...,
        ) -> None: ...

        @overload
        def __init__(
            self,
            name: str,
            request: Type[Q],
            reply: Callable[[], Type[A]],
            streams: Callable[[], Tuple[Type[I], ...]],
            idempotent: bool = ...,
        ) -> None: ...

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...


if TYPE_CHECKING:
    #: A contract of any types.
    AnyAsk = Ask[Any, Any, Any]
else:
    # A subscripted alias is made at run time and would slow the start of every command.
    AnyAsk = Ask
