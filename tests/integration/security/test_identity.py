"""The identity of a minion comes from its key and not from its messages."""

from __future__ import annotations

import pytest

from catena.client.requests import jobs, minions
from catena.client.requests.jobs import JobShow, RunJob
from catena.client.requests.minions import MinionList
from catena.core.job import JobProgress
from catena.transport.messages import (
    EventFired,
    Failure,
    GrainsUpdate,
    JobOrder,
    JobProgressed,
    JobReceived,
    JobReturned,
    PillarReply,
    PillarRequest,
    Refused,
    ReturnStored,
)
from tests.integration.security.conftest import CANARY
from tests.integration.security.hostile import Hostile, Site


def run(site: Site, target: str, fun: str = "test.ping") -> str:
    asked = RunJob(tgt=target, tgt_type="list", fun=fun)
    return str(site.ask(jobs.RUN, asked)["jid"])


def state_of(site: Site, jid: str, minion: str) -> str:
    shown = site.ask(jobs.SHOW, JobShow(jid))
    return str(shown["minions"][minion]["state"])


@pytest.mark.parametrize("name", ["victim", "VICTIM", "evil ", "../victim", "", "ev\u0456l"])
def test_hello_under_another_id_is_refused(site: Site, evil: Hostile, name: str) -> None:
    second = site.stranger("evil", evil.pair)
    answer = second.ask(second.hello(id=name))
    assert isinstance(answer, Refused) and answer.code == "identity"
    second.close()


def test_return_for_a_job_of_another_minion_is_refused(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    jid = run(site, "victim")
    # An order of an earlier test may come a second time.
    victim.until(
        lambda e: isinstance(e.message, JobOrder) and e.message.spec.jid == jid, "control", 60.0
    )
    for message in (
        JobReturned(evil.ret(jid, value="forged")),
        JobReceived(jid, 0),
        JobProgressed(JobProgress(jid, 1, "note", {"text": "forged"})),
    ):
        assert isinstance(evil.ask(message), Failure)
    assert state_of(site, jid, "victim") == "sent"
    assert victim.ask(JobReturned(victim.ret(jid, value="true"))) == ReturnStored(jid)
    assert "forged" not in str(site.ask(jobs.SHOW, JobShow(jid)))


def test_replayed_return_changes_nothing(site: Site, victim: Hostile) -> None:
    jid = run(site, "victim")
    victim.receive(JobOrder)
    assert victim.ask(JobReturned(victim.ret(jid, value="the true one"))) == ReturnStored(jid)
    assert victim.ask(JobReturned(victim.ret(jid, value="the replay"))) == ReturnStored(jid)
    assert "the replay" not in str(site.ask(jobs.SHOW, JobShow(jid)))
    assert len(site.all_events(f"salt/job/{jid}/ret/*")) == 1


def test_pillar_depends_on_the_key_and_not_on_claimed_grains(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    evil.say(GrainsUpdate({"id": "victim", "host": "victim"}))
    # Acked when everything before it is committed.
    evil.ask(EventFired("grains", "app/grains", {}))
    override = {"id": "victim", "ext_pillar": [{"git": "ext::sh -c touch% /tmp/x"}]}
    reply = evil.ask(PillarRequest(override=override), seconds=30)
    assert isinstance(reply, PillarReply) and CANARY not in str(reply)
    asked = MinionList(tgt="id:victim", tgt_type="grain")
    assert [row["id"] for row in site.ask(minions.LIST, asked)] == ["victim"]
    own = victim.ask(PillarRequest(), seconds=30)
    assert own.pillar["password"] == CANARY
