"""What many minions said about their jobs, folded into what is to be stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.core.job import JobReturn
from catena.master.jobs.delivery import MACHINE, Cause, Delivery
from catena.master.jobs.rows import Move, NewReturn, Row
from catena.master.store.metadata import Ready
from catena.transport.peers import Peer

#: jid and minion.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Word:
    """A minion has an order, or its return."""

    minion: str
    jid: str
    #: The outcome; None: the order is durable there.
    ret: JobReturn | None = None
    #: For people, beside a confirmation.
    detail: str = ""
    #: Who is told that a return is durable, in answer to which message.
    peer: Peer | None = None
    msg_id: bytes = b""
    #: The return as it came; None where it came otherwise than by itself.
    packed: Ready | None = None


@dataclass(slots=True)
class Folded:
    """What a row of words comes to."""

    #: One for each delivery that moves, from where it was read to where it ends up.
    moves: list[Move] = field(default_factory=list)
    returns: list[NewReturn] = field(default_factory=list)
    #: In the order of the words: a delivery's new state, or a return that is new.
    facts: list[tuple[str, str, Delivery, str] | NewReturn] = field(default_factory=list)
    #: jid and item for those who watch.
    items: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class _Fold:
    def __init__(self, standing: Mapping[Key, Row]) -> None:
        self.out = Folded()
        self._seen = {key: Delivery(row.state) for key, row in standing.items()}
        self._now = dict(self._seen)
        self._details: dict[Key, str] = {}
        self._returned = {key for key, row in standing.items() if row.stored is not None}

    def take(self, word: Word) -> None:
        key = (word.jid, word.minion)
        if word.ret is None:
            self._move(key, Cause.receive, word.detail)
        elif key not in self._returned:
            self._returned.add(key)
            # Watchers stop at the delivery's end: they must have the return before it.
            item = {"type": "return", "minion": word.minion, "ret": word.ret}
            self.out.items.append((word.jid, item))
            late = not self._move(key, Cause.ret, "")
            new = NewReturn(word.minion, word.ret, word.packed or Ready.of(word.ret), late)
            self.out.returns.append(new)
            self.out.facts.append(new)

    def _move(self, key: Key, cause: Cause, detail: str) -> bool:
        state = self._now[key]
        if not MACHINE.allows(state, cause):
            return False
        jid, minion = key
        target = self._now[key] = MACHINE.next(state, cause)
        self._details[key] = detail
        item = {"type": "delivery", "minion": minion, "state": target.value, "detail": detail}
        self.out.items.append((jid, item))
        if target is not Delivery.done and target is not state:
            self.out.facts.append((minion, jid, target, detail))
        return True

    def finish(self) -> Folded:
        self.out.moves = [
            Move(*key, self._seen[key], self._now[key], detail)
            for key, detail in self._details.items()
        ]
        return self.out


def fold(words: Iterable[Word], standing: Mapping[Key, Row]) -> Folded | None:
    """Return what *words*, in their order, come to.

    Args:
        words: of any minions.
        standing: where their deliveries stand (`job_rows.standing`).

    Returns:
        None when one of them is no plain step of its delivery's life: an unknown job, one that is
        to be cancelled, or one whose end lets others begin.
    """
    folding = _Fold(standing)
    for word in words:
        row = standing.get((word.jid, word.minion))
        if row is None or row.batch or row.cancel:
            return None
        folding.take(word)
    return folding.finish()
