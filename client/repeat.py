"""Recovery of a lost answer: wait for a master, and ask whether the request took effect."""

from __future__ import annotations

import time
from typing import Callable

from catena.core.errors import NotFoundError, PeerError, UnreachableError
from catena.core.frozen import dataclass
from catena.transport.messages import ClientRequest

#: Seconds for which a client looks for a master after it lost an answer. A master that its
#: supervisor restarts answers within a few seconds.
PATIENCE_SECONDS = 30.0
#: First and longest pause between two attempts, in seconds.
PAUSES = (0.1, 2.0)
#: Longest wait for an answer about the request, in seconds.
ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class LostAnswer:
    """A request without an answer.

    Args:
        message: the request; it has a key.
        ask: sends a request once and returns its value; its second argument is a timeout in
            seconds.
        tell: called with messages for the user.
        hint: tells the user how to repeat the request safely.
    """

    message: ClientRequest
    ask: Callable[[ClientRequest, float], object]
    tell: Callable[[str], None]
    hint: str


def look(lost: LostAnswer, why: str, until: float) -> None:
    """Wait until a master answers, and report whether the request took effect.

    The caller then sends the request again under the same key. That returns the first answer, or
    carries the request out.

    Args:
        lost: the request.
        why: why its answer was lost.
        until: monotonic time at which to give up.

    Raises:
        UnreachableError: no master answered in time, or it is too old to support keys.
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
            raise _unknown(lost, "this master does not support request keys") from None
        except UnreachableError as error:
            if time.monotonic() + pause > until:
                raise _unknown(lost, str(error)) from None
        time.sleep(pause)
        pause = min(pause * 2, longest)
    taken = isinstance(found, dict) and found.get("taken")
    lost.tell(f"{verb} was carried out" if taken else f"{verb} had no effect; sending it again")


def _unknown(lost: LostAnswer, why: str) -> UnreachableError:
    return UnreachableError(
        f"{why}: it is not known whether {lost.message.verb} was carried out; {lost.hint}"
    )
