"""Presence of minions, and two peers with one id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catena.client.replies.minions import MinionLine
from catena.core.job import JobProgress
from catena.master.gate import presence
from catena.master.store.database import StoreUnavailableError
from catena.transport.messages import (
    EventFired,
    EventStored,
    Failure,
    Goodbye,
    GrainsUpdate,
    JobProgressed,
    JobReceived,
    Ping,
    Refused,
    Welcome,
)
from tests.integration.master.bench import Bench, Script, a_master
from tests.support.waiting import until


async def row(master: Bench, name: str) -> MinionLine:
    await master.settle()
    (found,) = await master.minions.list([name])
    return found


async def test_hello_brings_a_minion_up_with_one_start_event_per_agent_process() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        assert web1.got(Welcome) == [Welcome("0.1.0", 15, 1000)]
        assert (await row(master, "web1")).up is True
        await web1.reconnect(first=False)
        web1.session = "another"
        await web1.reconnect(first=False)  # the first Hello of that process was lost
        starts = await master.events("salt/minion/web1/start")
        assert [e.data["session"] for e in starts[1:]] == ["another"]
        assert len(starts) == 2
        assert {"id", "cmd", "pretag", "data", "tag", "ts", "boot_id"} <= set(starts[0].data)
        assert [e.data for e in await master.events("salt/presence/change")] == [
            {"new": ["web1"], "lost": []}
        ]


async def test_repeated_hello_forgets_no_job_that_arrived_in_between() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        done = await master.submit()
        await web1.say(JobReceived(done.jid, 0))
        await web1.hello()
        assert len(web1.got(Welcome)) == 2
        assert await master.states(done.jid) == {"web1": "received"}
        await web1.reconnect()
        assert await master.states(done.jid) == {"web1": "lost"}


async def test_silent_minion_is_pinged_then_down_and_a_short_break_is_not_reported() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await web1.reconnect()
        master.hand.advance(23.0)
        master.presence.tick()
        web1.pump()  # the ping is answered here
        master.hand.advance(23.0)
        master.presence.tick()
        web1.pump()
        assert (await row(master, "web1")).up is True
        master.hand.advance(46.0)
        master.presence.tick()
        assert (await row(master, "web1")).up is False
        changes = [e.data for e in await master.events("salt/presence/change")]
        assert changes == [{"new": ["web1"], "lost": []}, {"new": [], "lost": ["web1"]}]


async def test_goodbye_takes_a_minion_down_at_once() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await web1.say(Goodbye("stops"))
        found = await row(master, "web1")
        assert (found.up, found.connected) == (False, False)


def twin_of(script: Script) -> Script:
    return Script(script.bench, script.name, script.pair, script.machine, "10.0.0.2")


async def test_second_live_session_of_one_key_is_refused_and_reported() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        clone = twin_of(web1)
        await clone.hello()
        web1.pump()  # answers the ping
        await master.settle()
        (refused,) = clone.got(Refused)
        assert refused.code == "duplicate_key"
        assert "10.0.0.2" in refused.reason
        assert clone.got(Welcome) == []
        assert "same key" in (await row(master, "web1")).conflict
        (event,) = await master.events("salt/minion/web1/conflict")
        assert event.data["address"] == "10.0.0.2"
        listed = await master.keys.list()
        assert "same key" in listed["accepted"][0].conflict
        done = await master.submit("web1")
        assert [s.jid for s in web1.orders()] == [done.jid]
        assert clone.orders() == []


async def test_another_minion_with_the_same_machine_id_is_refused() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        clone = await master.accept("web2", machine=web1.machine)
        await clone.hello()
        web1.pump()
        await master.settle()
        assert [r.code for r in clone.got(Refused)] == ["duplicate_machine"]
        assert "web1" in (await row(master, "web2")).conflict


@pytest.mark.parametrize("restarted", [False, True])
async def test_duplicate_machine_id_is_refused_while_its_accepted_minion_is_away(
    restarted: bool,
) -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        master.hand.advance(5.0)
        # Its key asked as the same machine, was listed as a clone, and accepted all the same.
        clone = await master.accept("web2", machine=web1.machine)
        web1.link.cut("power cut")
        web1.pump()
        if restarted:
            master.keys._machine_of.clear()
            master.keys._works_as.clear()
            await master.keys.open()
        await clone.hello()
        (refused,) = clone.got(Refused)
        assert refused.code == "duplicate_machine"
        assert "catena key delete web1" in refused.reason
        assert "web1" in (await row(master, "web2")).conflict
        again = twin_of(web1)
        await again.hello()
        assert len(again.got(Welcome)) == 1
        await master.keys.change("delete", "web1")
        await clone.reconnect()
        assert len(clone.got(Welcome)) == 1


async def test_machine_id_belongs_to_the_first_accepted_key_before_any_hello() -> None:
    async with a_master() as master:
        web1 = await master.accept("web1", machine="m")
        master.hand.advance(5.0)
        clone = await master.accept("web2", machine="m")
        await clone.hello()
        assert [r.code for r in clone.got(Refused)] == ["duplicate_machine"]
        await web1.hello()
        assert len(web1.got(Welcome)) == 1


async def test_former_machine_id_of_a_minion_can_be_used_by_another() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        clone = await master.accept("web2", machine=web1.machine)
        await web1.reconnect(machine_id="another", session="later")
        await clone.hello()
        assert len(clone.got(Welcome)) == 1


async def test_new_session_takes_over_when_the_old_one_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence, "ANSWER_SECONDS", 0.01)

    async with a_master() as master:
        (web1,) = await master.connect("web1")
        again = twin_of(web1)
        again.boot = "boot2"
        await again.hello()  # web1 was cut off from power and answers nothing
        await again.receives(Welcome)
        assert (await row(master, "web1")).boot_id == "boot2"
        assert await master.events("salt/minion/web1/conflict") == []


async def test_claim_is_answered_busy_when_the_store_is_closed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_master() as master:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: errors.append(what))
        (web1,) = await master.connect("web1")
        twin = twin_of(web1)

        def closed(*_: object, **__: object) -> None:
            raise StoreUnavailableError("the store is closed")

        monkeypatch.setattr(presence, "ANSWER_SECONDS", 0.2)
        await twin.hello()
        with monkeypatch.context() as patch:
            patch.setattr(master.store, "post", closed)
            await until(lambda: bool(errors) or bool(twin.got(Refused)))
        assert [refused.code for refused in twin.got(Refused)] == ["busy"] and not errors


async def test_since_is_updated_by_a_boot_without_a_noticed_silence() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        first = (await row(master, "web1")).since
        master.hand.advance(60)
        web1.link.cut("restarted")
        agent = twin_of(web1)
        await agent.hello()
        assert (await row(master, "web1")).since == first, "only the agent is a new one"
        master.hand.advance(60)
        agent.link.cut("power")
        booted = twin_of(web1)
        booted.boot = "boot2"
        await booted.hello()
        assert (await row(master, "web1")).since == first + 120


async def test_new_session_takes_over_at_once_when_the_old_connection_is_gone() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        web1.link.cut("killed")
        again = twin_of(web1)
        await again.hello()
        assert len(again.got(Welcome)) == 1


async def test_hello_under_another_id_than_that_of_the_key_is_refused() -> None:
    async with a_master() as master:
        evil = await master.accept("evil")
        await master.accept("web1")
        await evil.hello(id="web1")
        assert [r.code for r in evil.got(Refused)] == ["identity"]
        assert await master.events("salt/minion/*") == []


async def test_connection_without_a_hello_is_ignored() -> None:
    async with a_master() as master:
        web1 = await master.accept("web1")
        web1.pump()
        await web1.say(EventFired("1", "app/x", {}))
        assert web1.got(Failure)[0].code == "NotAllowedError"
        await web1.say(Ping(1))
        assert await master.events("app/*") == []


async def test_minions_event_is_stored_once_under_its_own_name() -> None:
    async with a_master() as master:
        evil, _ = await master.connect("evil", "web1")
        for _ in range(2):
            await evil.say(EventFired("1", "app/deployed", {"v": 1}))
        await evil.say(EventFired("2", "salt/minion/web1/start", {"boot_id": "new"}))
        assert [e.tag for e in await master.events("app/*")] == ["app/deployed"]
        (forged,) = await master.events("*/event/salt/minion/web1/start")
        assert forged.tag == "minion/evil/event/salt/minion/web1/start"
        assert forged.source == "evil"
        assert len(await master.events("salt/minion/web1/start")) == 1
        assert evil.got(EventStored) == [EventStored("1"), EventStored("1"), EventStored("2")]


async def test_events_over_the_rate_are_dropped_counted_and_reported() -> None:
    async with a_master(events_per_second=5) as master:
        evil, good = await master.connect("evil", "good")
        for number in range(30):
            evil.link.send("control", EventFired(str(number), "app/storm", {}))
        await good.say(EventFired("1", "app/calm", {}))
        assert len(await master.events("app/storm")) == 10
        assert len(await master.events("app/calm")) == 1
        master.gate.sweep()
        (report,) = await master.events("salt/minion/evil/dropped")
        assert report.data == {"id": "evil", "events": 20}


async def test_targets_use_the_newest_grains_of_a_minion() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await web1.say(GrainsUpdate({"role": "db"}))
        assert await master.targets.resolve("role:db", "grain") == ("web1",)


async def test_steps_of_a_job_of_another_minion_are_refused() -> None:
    async with a_master() as master:
        _, evil = await master.connect("web1", "evil")
        done = await master.submit("web1")
        await evil.say(JobProgressed(JobProgress(done.jid, 1, "started")))
        assert evil.got(Failure)[0].code == "NotAllowedError"
        assert await master.states(done.jid) == {"web1": "sent"}
