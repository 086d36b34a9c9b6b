"""Events of a hostile minion impersonate nobody and trigger no master reaction."""

from __future__ import annotations

import itertools

import pytest

from catena.client.requests import jobs as job_asks
from catena.client.requests.jobs import JobList
from catena.core.job import JobSpec
from catena.transport.messages import (
    EventFired,
    EventStored,
    Failure,
    JobOrder,
    JobReturned,
)
from tests.integration.security.hostile import Hostile, Site

_ids = itertools.count()

#: Tags that mean something when the master says them.
FORGED = [
    "salt/minion/victim/start",
    "salt/minion/evil/event/x/start",
    "salt/minion/evil/start",
    "salt/job/20260101000000000001/ret/victim",
    "salt/job/20260101000000000001/new",
    "salt/key",
    "salt/auth",
    "salt/presence/change",
    "salt/run/20260101000000000001/ret",
    "salt/wheel/20260101000000000001/ret",
    "salt/beacon/victim/load/",
    "salt/engines/x",
    "catena/chain/1/started",
    "catena/reactor/failed",
    "minion_start",
    "minion/victim/start",
    "minion/victim/event/x",
    "key",
    "resource/refresh/victim",
]
#: What a template that trusted it would do to every minion.
INJECTED = (
    "x'\n  - tgt_type: list\nowned:\n  local.cmd.run:\n  - tgt: '*'\n  - arg: [touch /tmp/owned]\n"
    "tail:\n  local.test.ping:\n  - tgt: 'x"
)


def fire(minion: Hostile, tag: str, **data: object) -> None:
    fired = EventFired(f"e{next(_ids)}", tag, dict(data))
    assert isinstance(minion.ask(fired), EventStored)


def next_order(minion: Hostile) -> JobSpec:
    """Return the next job, and answer it."""
    spec = minion.receive(JobOrder, 20).spec
    minion.ask(JobReturned(minion.ret(spec.jid, spec.fun)))
    return spec


@pytest.mark.parametrize("tag", FORGED)
def test_event_with_a_tag_of_the_master_is_stored_under_the_minions_name(
    site: Site, evil: Hostile, tag: str
) -> None:
    before = len(site.all_events(tag))
    fire(evil, tag, id="victim", jid="20260101000000000001", fun="x")
    assert len(site.all_events(tag)) == before
    newest = [e for e in site.all_events("*") if e["source"] == "evil"][-1]
    assert newest["tag"] == f"minion/evil/event/{tag}"


def test_event_of_a_minion_triggers_no_reaction_to_master_events(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    for tag in FORGED[:3]:
        fire(evil, tag, id="victim")
        fire(evil, tag, id=INJECTED)
    fire(evil, "app/mark", said="mark")
    # The reaction to the mark follows those to the earlier events of its minion. The reaction to
    # the true start of the victim comes before or after it.
    awaited = {"mgractionchains.resume", "mark"}
    while awaited:
        order = next_order(victim)
        assert order.fun in ("mgractionchains.resume", "test.arg")
        awaited -= {order.fun, order.kwargs.get("said")}
    jobs = site.ask(job_asks.LIST, JobList())
    assert "cmd.run" not in {job["fun"] for job in jobs}
    # The two true starts have caused these jobs.
    resumed = [job["target"] for job in jobs if job["fun"] == "mgractionchains.resume"]
    assert sorted(resumed) == ["evil", "victim"]


def test_id_in_event_data_is_that_of_the_sender(
    site: Site, evil: Hostile, victim: Hostile
) -> None:
    fire(evil, "app/deployed", id="victim", said="{{ 7*7 }}{% raw %}")
    while (order := next_order(victim)).fun != "test.arg" or order.kwargs["said"] == "mark":
        pass
    assert order.kwargs == {"who": "evil", "said": "{{ 7*7 }}{% raw %}"}


@pytest.mark.parametrize("event_id", ["", "x" * 65])
def test_event_without_a_valid_id_is_refused(evil: Hostile, event_id: str) -> None:
    assert isinstance(evil.ask(EventFired(event_id, "app/x", {})), Failure)


@pytest.mark.parametrize("tag", ["", "a\nb", "a\x1b[2J", "x" * 1025])
def test_event_with_an_invalid_tag_is_refused(evil: Hostile, tag: str) -> None:
    assert isinstance(evil.ask(EventFired("e", tag, {})), Failure)
