"""What many minions said about their jobs, folded into what is to be stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from catena.client.replies.jobs import JobDeliveryItem, JobItem, JobReturnItem
from catena.core.fsm import Actor
from catena.core.job import JobReturn
from catena.master.jobs.delivery import MACHINE, Delivery, DeliveryEvent
from catena.master.jobs.rows import Move, NewReturn, Standing
from catena.master.store.metadata import Ready
from catena.transport.peers import Peer

#: jid and minion.
Key = tuple[str, str]


# Tuples, here and in `rows`: a frozen dataclass takes three times as long to make, and a return
# is half a dozen of them.
class Word(NamedTuple):
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


class Said(NamedTuple):
    """What those who watch a job are told of it."""

    jid: str
    minion: str
    #: Where its delivery stands now; with `ret` it does not say.
    state: Delivery | None
    detail: str = ""
    ret: JobReturn | None = None

    def item(self) -> JobItem:
        """Return it as an item of the job's feed."""
        if self.state is None:
            assert self.ret is not None
            return JobReturnItem(self.minion, self.ret)
        return JobDeliveryItem(self.minion, self.state.value, self.detail)


@dataclass(slots=True)
class Folded:
    """What a row of words comes to."""

    #: One for each delivery that moves, with the last thing that happens to it: a return, or the
    #: confirmation of an order, leads to the same state from each state before it.
    moves: list[Move] = field(default_factory=list)
    returns: list[NewReturn] = field(default_factory=list)
    #: In the order of the words: a delivery's new state, or a return that is new.
    facts: list[Said | NewReturn] = field(default_factory=list)
    #: For those who watch, in the same order.
    said: list[Said] = field(default_factory=list)


class _Fold:
    def __init__(self) -> None:
        self.out = Folded()
        #: Where deliveries that have moved stand now, by which event, and with which detail.
        self._moved: dict[Key, tuple[Delivery, DeliveryEvent, str]] = {}
        self._returned: set[Key] = set()

    def take(self, word: Word, at: Standing) -> None:
        key = (word.jid, word.minion)
        ret = word.ret
        if ret is None:
            self._move(key, at, DeliveryEvent.receive, word.detail)
        elif not at.returned and key not in self._returned:
            self._returned.add(key)
            # Watchers stop at the delivery's end: they must have the return before it.
            self.out.said.append(Said(word.jid, word.minion, None, "", ret))
            late = not self._move(key, at, DeliveryEvent.ret, "")
            new = NewReturn(word.minion, ret, word.packed or Ready.of(ret), late)
            self.out.returns.append(new)
            self.out.facts.append(new)

    def _move(self, key: Key, at: Standing, cause: DeliveryEvent, detail: str) -> bool:
        moved = self._moved.get(key)
        state = moved[0] if moved else at.state
        target = MACHINE.after(state, cause, Actor.agent)
        if target is None:
            return False
        self._moved[key] = (target, cause, detail)
        said = Said(*key, target, detail)
        self.out.said.append(said)
        if target is not Delivery.done and target is not state:
            self.out.facts.append(said)
        return True

    def finish(self, standing: Mapping[Key, Standing]) -> Folded:
        self.out.moves = [
            Move(*key, standing[key].state, event, detail)
            for key, (_, event, detail) in self._moved.items()
        ]
        return self.out


def fold(words: Iterable[Word], standing: Mapping[Key, Standing]) -> Folded | None:
    """Return what *words*, in their order, come to.

    Args:
        words: of any minions.
        standing: where their deliveries stand (`job_rows.standing`).

    Returns:
        None when one of them is no plain step of its delivery's life: an unknown job, one that is
        to be cancelled, or one whose end lets others begin.
    """
    folding = _Fold()
    for word in words:
        at = standing.get((word.jid, word.minion))
        if at is None or not at.plain:
            return None
        folding.take(word, at)
    return folding.finish(standing)
