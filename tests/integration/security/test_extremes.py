"""Values that have the right type and make no sense: each is refused or kept, none is a fault."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from catena.client.requests import jobs, minions
from catena.client.requests.jobs import JobList, RunJob
from catena.client.requests.minions import MinionList
from catena.core.job import JobProgress
from catena.transport.messages import (
    ChunkRequest,
    EventFired,
    Failure,
    FilesRequest,
    Goodbye,
    GrainsUpdate,
    JobOrder,
    JobProgressed,
    JobReceived,
    JobRejected,
    JobReturned,
    KeyAnnounce,
    ManifestRequest,
    PillarRequest,
    Pong,
    ReturnPart,
)
from tests.integration.security.hostile import Hostile, SilenceError, Site

NAN, INF, BIG = float("nan"), float("inf"), 2**64 - 1
ODD: list[Any] = [
    None, True, -1, BIG, -(2**63), NAN, INF, "", "\0", "x" * 100_000, b"\xff\0", [], {},
    [[[[]]]], {"": None}, {"a": {1: b"x", None: NAN, 2: [BIG]}}, {"__kwarg__": True},
    {"_|-_|-_|-": {"result": NAN, "changes": BIG, "comment": b"x", "__run_num__": BIG}},
]  # fmt: skip
_numbers = itertools.count(1)
FAULTS = ("internal error", "its log says why", "can't be used now")


def given(site: Site, minion: Hostile, fun: str = "test.ping") -> str:
    asked = RunJob(tgt=minion.name, tgt_type="list", fun=fun)
    jid = str(site.ask(jobs.RUN, asked)["jid"])
    minion.until(
        lambda e: isinstance(e.message, JobOrder) and e.message.spec.jid == jid, "control", 15
    )
    return jid


def check(site: Site, minion: Hostile, message: Any, socket: str = "control") -> None:
    """Send *message*; an answer to it must be no fault of the master."""
    msg_id = minion.say(message, socket)
    # Committed, and so done with, after what came before it.
    minion.ask(EventFired(f"x{next(_numbers)}", "app/extreme", {}))
    try:
        answer = minion.answer(msg_id, socket, 0.001)
    except SilenceError:
        return
    if isinstance(answer, Failure):
        assert not any(fault in answer.message for fault in FAULTS), (message, answer)


@pytest.fixture(autouse=True)
def _no_traceback(site: Site) -> Any:
    before = len(site.log)
    yield
    new = site.log[before:]
    assert "Traceback" not in new, new[new.find("Traceback") :][:4000]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:30])
def test_values(site: Site, evil: Hostile, value: Any) -> None:
    jid = given(site, evil)
    for message in (
        GrainsUpdate({"x": value, "id": value}),
        EventFired(f"v{next(_numbers)}", "app/value", {"x": value, "id": value, "user": value}),
        JobProgressed(JobProgress(jid, 1, "action", {"chain_id": value, "action_id": value})),
        JobProgressed(JobProgress(jid, 2, "queued", {"position": value})),
        JobReturned(evil.ret(jid, "mgractionchains.start", value)),
        JobReturned(evil.ret(f"{20240101000000000000 + next(_numbers)}", "x" * 300, value)),
    ):
        check(site, evil, message)
    done = site.fleet.catena("job", "show", jid, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [0, -1, BIG, -(2**63)])
def test_numbers(site: Site, evil: Hostile, number: int) -> None:
    jid = given(site, evil)
    for message in (
        JobReceived(jid, number),
        JobProgressed(JobProgress(jid, number, "state", {}, NAN)),
        JobProgressed(JobProgress(jid, 3, "note", {}, float(number))),
        Pong(number),
    ):
        check(site, evil, message)
    for times in (NAN, INF, float(number)):
        jid = given(site, evil, "mgractionchains.resume")
        ret = replace(evil.ret(jid), retcode=number, started=times, duration_seconds=times)
        check(site, evil, JobReturned(ret))
        own = replace(ret, jid=f"{20230101000000000000 + next(_numbers)}")
        check(site, evil, JobReturned(own))
    for part in ((0, number), (number, 1), (number, number)):
        check(site, evil, ReturnPart(jid, "0" * 64, *part, b"x"), "bulk")
    check(site, evil, ChunkRequest("base", "", "0" * 64, number), "bulk")


@pytest.mark.parametrize("text", ["", "\0", "\n", "x" * 20_000, "\u202e\x1b", "' OR 1=1 --"])
def test_texts(site: Site, evil: Hostile, text: str) -> None:
    jid = given(site, evil)
    for message in (
        JobRejected(jid, text),
        KeyAnnounce(text),
        PillarRequest(text, text, {text: text}),
        EventFired(text, text, {text: text}),
        JobProgressed(JobProgress(jid, 1, text, {text: text})),
        JobReturned(evil.ret(jid, text, text, out=text, boot_id=text)),
        evil.hello(version=text, role=text, grains={text: text}, pending_resume={text: text}),
        evil.hello(open_jobs=(text,) * 50),
        evil.hello(machine_id=text),
    ):
        check(site, evil, message)
    for request in (
        ManifestRequest(text),
        ChunkRequest(text, text, text, 0),
        FilesRequest(text, (text,) * 3, (text,) * 3),
    ):
        check(site, evil, request, "bulk")
    assert site.fleet.catena("minion", "show", "evil").returncode == 0
    assert site.ask(jobs.LIST, JobList())


def test_a_goodbye_of_its_own_ends_nobody_else(site: Site, evil: Hostile, victim: Hostile) -> None:
    evil.say(Goodbye("x" * 100_000))
    victim.ask(EventFired("up", "app/up", {}))
    up = {row["id"] for row in site.ask(minions.LIST, MinionList()) if row["up"]}
    assert "victim" in up
