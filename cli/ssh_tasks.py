"""What a command has to do on one SSH host, and what comes back from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from catena.core.frozen import dataclass

if TYPE_CHECKING:
    from catena.ssh.connect.link import Watch

#: An answer: its value, the output that suits it, its code; and the error that came after it.
Answer = Mapping[str, Any]


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Task:
    """What to do on one host."""

    host: str
    #: Does it; None: there is no answer to show.
    work: Callable[[Watch], Optional[Answer]]
    #: Called when the answer was printed.
    shown: Callable[[], None] = nothing
