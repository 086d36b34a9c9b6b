"""The task of a command on one SSH host, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from catena.core.frozen import dataclass

if TYPE_CHECKING:
    from catena.ssh.connect.link import Watch

#: An answer: its value, the output that suits it, its exit code; and a later error, if any.
Answer = Mapping[str, Any]


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Task:
    """The work on one host."""

    host: str
    #: Does the work; returns None if there is no answer to show.
    work: Callable[[Watch], Optional[Answer]]
    #: Called after the answer was printed.
    shown: Callable[[], None] = nothing
