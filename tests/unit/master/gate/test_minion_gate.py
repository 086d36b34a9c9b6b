"""How the master answers the messages of minions, with a scripted link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from catena.core.errors import CatenaError, NotFoundError
from catena.core.job import JobProgress
from catena.master.gate import minion_gate
from catena.master.gate.minion_gate import MinionGate
from catena.transport.messages import (
    Envelope,
    Failure,
    JobProgressed,
    JobReceived,
    JobRejected,
    PillarReply,
    PillarRequest,
)
from catena.transport.peers import Peer
from tests.support.waiting import run_ready_tasks

PEER = Peer("control", b"route", "print", "192.0.2.1", "key")
QUESTION = Envelope(b"question", b"", PillarRequest("base", "", {}))


class Link:
    """Refuses the first *full* messages, as if the minion's queue were full."""

    def __init__(self, full: int) -> None:
        self.full = full
        self.sent: list[Any] = []

    def send(self, peer: Peer, message: Any, reply_to: bytes) -> bool:
        if self.full:
            self.full -= 1
            return False
        self.sent.append((reply_to, message))
        return True


class Pillar:
    """Answers every request with *answer*, or raises it."""

    def __init__(self, answer: PillarReply | CatenaError) -> None:
        self._answer = answer

    async def compile(self, minion: str, request: PillarRequest) -> PillarReply:
        if isinstance(self._answer, CatenaError):
            raise self._answer
        return self._answer


def gate(link: Link, pillar: Pillar) -> MinionGate:
    parts = SimpleNamespace(
        link=link,
        pillar=pillar,
        clock=SimpleNamespace(monotonic=lambda: 0.0),
        keys=SimpleNamespace(minion_of=lambda user: "web1"),
        presence=SimpleNamespace(heard=lambda peer: object()),
        return_limit_bytes=1,
        events_per_second=1,
        output_per_second=1,
    )
    return MinionGate(cast(Any, parts))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(PillarReply({"a": 1}), PillarReply), (NotFoundError("no such environment"), Failure)],
)
@pytest.mark.parametrize("full", [0, 1, 5])
async def test_answer_is_resent_when_the_queue_of_the_minion_is_full(
    answer: PillarReply | CatenaError,
    expected: type,
    full: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minion_gate, "SEND_PAUSE_SECONDS", 0.0)
    link = Link(full)
    made = gate(link, Pillar(answer))
    made.on_message(PEER, QUESTION)
    await run_ready_tasks()
    assert [(to, type(message)) for to, message in link.sent] == [(b"question", expected)]


async def test_refusals_of_a_full_queue_count_as_requests_in_progress() -> None:
    link = Link(10**6)
    made = gate(link, Pillar(NotFoundError("no such environment")))
    for _ in range(minion_gate.PILLAR_LIMIT):
        made.on_message(PEER, QUESTION)
        await run_ready_tasks()
    with pytest.raises(CatenaError, match="already in progress"):
        made.on_message(PEER, QUESTION)
    await made.close()
    assert link.sent == []


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (JobReceived("20260101000000000000", 0), "receipts"),
        (JobRejected("20260101000000000000", "no"), "receipts"),
        (JobProgressed(JobProgress("20260101000000000000", 1, "started")), "steps"),
    ],
)
def test_reports_of_jobs_over_the_rate_are_dropped_and_counted(
    message: object, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = gate(Link(0), Pillar(NotFoundError("")))
    parts = made._parts
    stored: list[object] = []
    keep = SimpleNamespace(
        received=lambda *said: stored.append(said),
        rejected=lambda *said: stored.append(said),
        progressed=lambda *said: stored.append(said),
    )
    recorded: list[object] = []
    cast(Any, parts).returns = keep
    cast(Any, parts).bus = SimpleNamespace(record=lambda **_: None)
    cast(Any, parts).store = SimpleNamespace(later=recorded.append)
    for _ in range(int(minion_gate.REPORT_BURST) + 3):
        made.on_message(PEER, Envelope(b"report", b"", message))
    assert len(stored) == minion_gate.REPORT_BURST
    made.sweep()
    assert f"web1 sent 3 {kind} over its rate; they were dropped" in caplog.text
    (event,) = recorded
    assert cast(Any, event).keywords["data"] == {"id": "web1", kind: 3}
