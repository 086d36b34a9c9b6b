"""A request whose answer was lost: wait for a master, ask what became of it, send it again."""

from __future__ import annotations

import time
from typing import Callable

from catena.core.errors import NotFoundError, PeerError, UnreachableError
from catena.core.frozen import dataclass
from catena.transport.messages import ClientRequest

#: How long a client looks for a master again after it lost an answer, seconds: a master that a
#: supervisor restarts answers within a few seconds.
PATIENCE_SECONDS = 30.0
#: First and longest pause between two tries, seconds.
PAUSES = (0.1, 2.0)
#: Longest wait for the answer to one question, seconds.
ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class Lost:
    """A request without an answer.

    Args:
        message: the request; it has a key.
        ask: sends a request once and returns its value; takes seconds for the answer.
        tell: called with what a person should know.
        hint: how a person repeats the request safely.
    """

    message: ClientRequest
    ask: Callable[[ClientRequest, float], object]
    tell: Callable[[str], None]
    hint: str


def look(lost: Lost, why: str, until: float) -> None:
    """Wait until a master answers, and tell whether it has carried the request out.

    The caller then sends the request again under the same key: that gives the answer of the first
    one, or carries it out.

    Args:
        lost: the request.
        why: what happened to its answer.
        until: when to give up, by the monotonic clock.

    Raises:
        UnreachableError: no master answered in time, or it is too old to know keys.
    """
    verb = lost.message.verb
    lost.tell(f"the answer to {verb} was lost ({why}); looking for the master again")
    question = ClientRequest("request.find", {"key": lost.message.key})
    pause, longest = PAUSES
    if time.monotonic() > until:
        raise _unknown(lost, why)
    while True:
        try:
            found = lost.ask(question, ANSWER_SECONDS)
            break
        except (NotFoundError, PeerError):
            raise _unknown(lost, "this master can't say what became of a request") from None
        except UnreachableError as error:
            if time.monotonic() + pause > until:
                raise _unknown(lost, str(error)) from None
        time.sleep(pause)
        pause = min(pause * 2, longest)
    taken = isinstance(found, dict) and found.get("taken")
    lost.tell(f"{verb} was carried out" if taken else f"{verb} had no effect; sending it again")


def _unknown(lost: Lost, why: str) -> UnreachableError:
    return UnreachableError(
        f"{why}: it is not known whether {lost.message.verb} was carried out; {lost.hint}"
    )
