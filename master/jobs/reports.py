"""Merges the reports of many minions about their jobs into the rows to store. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from catena.client.replies.jobs import JobDeliveryItem, JobItem, JobReturnItem
from catena.core.fsm import Actor
from catena.core.job import JobReturn
from catena.master.jobs.delivery import MACHINE, Delivery, DeliveryEvent
from catena.master.jobs.rows import DeliverySnapshot, Move, NewReturn
from catena.master.store.metadata import Ready
from catena.transport.peers import Peer

#: jid and minion.
Key = tuple[str, str]


# Tuples, here and in `rows`: creating a frozen dataclass takes three times as long, and storing
# one return creates half a dozen of them.
class JobReport(NamedTuple):
    """A minion's report that an order is durable there, or that a job has returned."""

    minion: str
    jid: str
    #: The return; None: the order is durable on the minion.
    ret: JobReturn | None = None
    #: Queue position, for people; only without a return.
    detail: str = ""
    #: Connection that gets the acknowledgement of a return; None: nothing is acknowledged.
    peer: Peer | None = None
    #: Message that is acknowledged.
    msg_id: bytes = b""
    #: The return as the minion packed it; None if it came in several messages.
    packed: Ready | None = None


class DeliveryUpdate(NamedTuple):
    """A change of a delivery, or a return, for the followers of a job."""

    jid: str
    minion: str
    #: New state of the delivery; None: the update is the return *ret*.
    state: Delivery | None
    detail: str = ""
    ret: JobReturn | None = None

    def item(self) -> JobItem:
        """Return the update as an item of the job's feed."""
        if self.state is None:
            assert self.ret is not None
            return JobReturnItem(self.minion, self.ret)
        return JobDeliveryItem(self.minion, self.state.value, self.detail)


@dataclass(slots=True)
class MergedReports:
    """The changes that a sequence of reports causes."""

    #: One move for each delivery that changes, with its last event only. Every state before leads
    #: to the same state by this event, because it is a return or a confirmation.
    moves: list[Move] = field(default_factory=list)
    returns: list[NewReturn] = field(default_factory=list)
    #: Changes that cause events: new states and new returns, in the order of the reports.
    changes: list[DeliveryUpdate | NewReturn] = field(default_factory=list)
    #: Changes for followers, in the order of the reports.
    updates: list[DeliveryUpdate] = field(default_factory=list)


class _Merger:
    def __init__(self) -> None:
        self.merged = MergedReports()
        #: Moved deliveries -> new state, event and detail.
        self._moved: dict[Key, tuple[Delivery, DeliveryEvent, str]] = {}
        self._returned: set[Key] = set()

    def add(self, report: JobReport, before: DeliverySnapshot) -> None:
        """Add the changes that a report causes; *before* is the state before all reports."""
        key = (report.jid, report.minion)
        ret = report.ret
        if ret is None:
            self._move(key, before, DeliveryEvent.receive, report.detail)
        elif not before.has_return and key not in self._returned:
            self._returned.add(key)
            # Followers stop at the end of the delivery, so they must get the return before it.
            self.merged.updates.append(DeliveryUpdate(report.jid, report.minion, None, "", ret))
            late = not self._move(key, before, DeliveryEvent.ret, "")
            new = NewReturn(report.minion, ret, report.packed or Ready.of(ret), late)
            self.merged.returns.append(new)
            self.merged.changes.append(new)

    def _move(self, key: Key, before: DeliverySnapshot, cause: DeliveryEvent, detail: str) -> bool:
        """Add a transition; return False if the life cycle does not have it."""
        moved = self._moved.get(key)
        state = moved[0] if moved else before.state
        target = MACHINE.after(state, cause, Actor.agent)
        if target is None:
            return False
        self._moved[key] = (target, cause, detail)
        update = DeliveryUpdate(*key, target, detail)
        self.merged.updates.append(update)
        if target is not Delivery.done and target is not state:
            self.merged.changes.append(update)
        return True

    def finish(self, snapshots: Mapping[Key, DeliverySnapshot]) -> MergedReports:
        self.merged.moves = [
            Move(*key, snapshots[key].state, event, detail)
            for key, (_, event, detail) in self._moved.items()
        ]
        return self.merged


def merge(
    reports: Iterable[JobReport], snapshots: Mapping[Key, DeliverySnapshot]
) -> MergedReports | None:
    """Return the changes that *reports* cause, in their order.

    Args:
        reports: of any minions.
        snapshots: the state of their deliveries (`job_rows.snapshots`).

    Returns:
        None if a report must be processed by itself: its job is unknown, its delivery is being
        cancelled, or it is part of a batch, in which its end lets other deliveries begin.
    """
    merger = _Merger()
    for report in reports:
        before = snapshots.get((report.jid, report.minion))
        if before is None or not before.is_plain:
            return None
        merger.add(report, before)
    return merger.finish(snapshots)
