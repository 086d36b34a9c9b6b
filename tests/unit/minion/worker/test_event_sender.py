from __future__ import annotations

import os
from collections import deque
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from catena.core.errors import CatenaError, LimitError, NotAllowedError, UnreachableError
from catena.minion.worker.event_sender import WINDOW, EventSender
from catena.transport.failures import failure_of
from catena.transport.local import LocalClient
from catena.transport.messages import EventFired, EventStored


class Daemon:
    """The other end: answers in order what it was sent, until it dies."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.insisted: list[str] = []
        self.open: deque[tuple[bytes, str]] = deque()
        self.refuses: dict[str, CatenaError] = {}
        self.alive = True
        self.most = 0

    def begin(self, message: EventFired, timeout: float | None = None) -> bytes:
        if not self.alive:
            raise UnreachableError("nobody there")
        self.heard.append(message.event_id)
        key = len(self.heard).to_bytes(16, "big")
        self.open.append((key, message.event_id))
        self.most = max(self.most, len(self.open))
        return key

    def answered(
        self, begun: AbstractSet[bytes], timeout: float | None = None
    ) -> tuple[bytes, Any]:
        if not self.alive:
            raise UnreachableError("it hung up")
        key, name = self.open.popleft()
        assert key in begun
        refusal = self.refuses.get(name)
        return key, failure_of(refusal) if refusal else EventStored(name)

    def insist(self, event: EventFired) -> None:
        refusal = self.refuses.get(event.event_id)
        if refusal:
            raise refusal
        self.insisted.append(event.event_id)


class Client(LocalClient):
    def __init__(self, daemon: Daemon) -> None:
        self.begin = daemon.begin  # type: ignore[method-assign]
        self.answered = daemon.answered  # type: ignore[method-assign]


def sender(daemon: Daemon) -> EventSender:
    return EventSender(Client(daemon), daemon.insist)


def send(out: EventSender, *names: str) -> None:
    for name in names:
        out.send(EventFired(name, "a/tag", {}))


def test_events_are_sent_without_waiting_and_settled_once() -> None:
    daemon = Daemon()
    out = sender(daemon)
    send(out, "a", "b", "c")
    assert daemon.heard == ["a", "b", "c"] and len(daemon.open) == 3
    out.settle()
    assert not daemon.open
    out.settle()


def test_no_more_than_a_window_waits_for_an_answer() -> None:
    daemon = Daemon()
    out = sender(daemon)
    send(out, *(str(number) for number in range(3 * WINDOW)))
    assert daemon.most == WINDOW
    out.settle()
    assert not daemon.open and len(daemon.heard) == 3 * WINDOW


def test_event_that_cannot_be_stored_fails_only_when_settled() -> None:
    daemon = Daemon()
    daemon.refuses = {"b": LimitError("too many wait"), "c": LimitError("another")}
    out = sender(daemon)
    send(out, "a", "b", "c", "d")
    out.drain()
    with pytest.raises(LimitError, match="too many wait"):
        out.settle()
    out.settle()


def test_unanswered_events_are_resent_in_order_after_the_daemon_died() -> None:
    daemon = Daemon()
    out = sender(daemon)
    send(out, "a", "b")
    daemon.alive = False
    send(out, "c")
    assert daemon.insisted == ["a", "b", "c"]
    daemon.alive = True
    daemon.open.clear()
    send(out, "d")
    daemon.alive = False
    out.settle()
    assert daemon.insisted == ["a", "b", "c", "d"]


def test_absent_daemon_is_waited_for_once() -> None:
    daemon = Daemon()
    daemon.refuses = {name: UnreachableError("away") for name in "ab"}
    out = sender(daemon)
    send(out, "a", "b", "c")
    daemon.alive = False
    with pytest.raises(UnreachableError):
        out.settle()
    assert daemon.insisted == []


def test_connection_that_is_refused_fails_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon()

    def refused(begun: AbstractSet[bytes], timeout: float | None = None) -> tuple[bytes, Any]:
        raise NotAllowedError("only root may ask")

    daemon.answered = refused  # type: ignore[method-assign]
    out = sender(daemon)
    send(out, "a")
    with pytest.raises(NotAllowedError):
        out.settle()
    out.settle()


def test_forked_process_does_not_wait_for_events_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = Daemon()
    out = sender(daemon)
    send(out, "a")
    daemon.open.clear()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    out.drain()
    send(out, "b")
    out.settle()
    assert daemon.heard == ["a", "b"] and not daemon.open
