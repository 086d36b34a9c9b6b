"""Real replies of the master fit the records that the contracts name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgpack

from catena.client.requests import (
    blobs,
    chains,
    contracts,
    events,
    jobs,
    kept_requests,
    keys,
    minions,
    runners,
    schema,
)
from catena.client.requests.contract import AnyAsk
from catena.client.typed import item_of, reply_of
from catena.core.digest import sha256
from catena.core.records import encode, plain
from catena.master.requests.rights import ADMINISTRATOR, Caller
from catena.master.requests.verb import Aside, End
from catena.transport.messages import JobOrder
from tests.integration.master.bench import Bench, Script, a_master, a_return
from tests.json_schema import faults
from tests.support.waiting import PATIENCE_SECONDS

ANNA = Caller("anna", ADMINISTRATOR)
#: It needs clocks that disagree; it answers as the verbs that have the same reply.
UNTRIED = {"chain.release"}


def travelled(value: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(value, default=plain), strict_map_key=False)


class Asker:
    """Asks the dispatcher, and checks whatever comes."""

    def __init__(self, master: Bench) -> None:
        self._master = master
        self.asked: set[str] = set()
        self.items: set[str] = set()

    async def ask(self, ask: AnyAsk, request: Any) -> Any:
        self.asked.add(ask.name)
        answer = self._master.dispatcher.answer(ANNA, ask.name, encode(request))
        last: Any = None
        if isinstance(answer, AsyncIterator):
            async for item in answer:
                if isinstance(item, End):
                    last = item.value
                else:
                    self._item(ask, travelled(item.value if isinstance(item, Aside) else item))
        else:
            last = await answer
        data = travelled(last)
        assert not faults(schema.of_ask(ask)["reply"], data), ask.name
        assert encode(reply_of(ask, data)) == data, ask.name
        return data

    def _item(self, ask: AnyAsk, data: Any) -> None:
        assert not faults(schema.of_ask(ask)["item"], data), ask.name
        assert encode(item_of(ask, data)) == data, ask.name
        self.items.add(str(data.get("type", "")))


def cmd(text: str) -> chains.ChainAction:
    return chains.ChainAction("cmd", {"cmd": text})


async def ask_of_drafts(asker: Asker) -> None:
    ask, ref = asker.ask, chains.ChainRef("draft")
    await ask(chains.CREATE, chains.ChainCreate("draft"))
    await ask(chains.ADD, chains.ChainAdd("draft", "*", cmd("a")))
    await ask(chains.ADD, chains.ChainAdd("draft", "*", cmd("b")))
    await ask(chains.EDIT, chains.ChainEdit("draft", 0, cmd("c")))
    await ask(chains.MOVE, chains.ChainMove("draft", 0, 1))
    await ask(chains.REMOVE_ENTRY, chains.ChainRemoveEntry("draft", 0))
    assert (await ask(chains.RENDER, ref))["files"]
    await ask(chains.PREVIEW, ref)
    await ask(chains.SCHEDULE, chains.ChainSchedule("draft", 0.0, True))
    await ask(chains.APPROVE, ref)
    await ask(chains.PAUSE, chains.ChainPause("draft"))
    assert (await ask(chains.SHOW, ref))["paused"]
    await ask(chains.CONTINUE, chains.ChainPause("draft"))
    assert await ask(chains.LIST, chains.ChainList())
    await ask(chains.CANCEL, ref)
    await ask(chains.DELETE, ref)


async def ask_of_a_failed_chain(asker: Asker, web1: Script) -> None:
    ask, ref = asker.ask, chains.ChainRef("fails")
    entry = {"tgt": "web1", "action": {"kind": "cmd", "data": {"cmd": "false"}}}
    made = await ask(chains.APPLY, chains.ChainDocument("fails", (entry,)))
    before = len(web1.orders())
    await ask(chains.SCHEDULE, chains.ChainSchedule("fails"))
    order = (await web1.receives(JobOrder, before + 1))[-1].spec
    watching = asyncio.create_task(ask(chains.WATCH, ref))
    number = (await ask(chains.SHOW, ref))["minions"][0]["actions"][0]["action_id"]
    name = f"mgr_actionchain_{made['id']}_action_{number}_chunk_1"
    row = {"result": False, "comment": "no", "changes": {}}
    ret = a_return(order.jid, {f"mgrcompat_|-{name}_|-x_|-module_run": row})
    ret = replace(ret, fun="mgractionchains.start", success=False, retcode=2)
    await web1.say(jobs_returned(ret))
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await watching)["state"] == "failed"
    await ask(chains.RETRY, ref)
    await ask(chains.RESOLVE, chains.ChainResolve("fails", "cancel"))


def jobs_returned(ret: Any) -> Any:
    from catena.transport.messages import JobReturned

    return JobReturned(ret)


async def ask_of_jobs(asker: Asker, web1: Script) -> None:
    ask = asker.ask
    before = len(web1.orders())
    following = asyncio.create_task(ask(jobs.RUN, jobs.RunJob("web1", "test.ping", follow=True)))
    order = (await web1.receives(JobOrder, before + 1))[-1].spec
    await web1.receive(order.jid)
    await web1.step(order.jid)
    await web1.answer(order.jid)
    async with asyncio.timeout(PATIENCE_SECONDS):
        jid = (await following)["jid"]
    await ask(jobs.WATCH, jobs.JobWatch(jid))
    assert (await ask(jobs.SHOW, jobs.JobShow(jid)))["minions"]["web1"]["ret"]["success"]
    started = await ask(jobs.RUN, jobs.RunJob("absent", "test.ping"))
    await ask(jobs.CANCEL, jobs.JobCancelRequest(started["jid"]))
    assert await ask(jobs.LIST, jobs.JobList())


async def ask_of_the_rest(asker: Asker) -> None:
    ask = asker.ask
    data = b"file"
    assert await ask(blobs.PUT, blobs.BlobPut(sha256(data).hexdigest(), 0, 1, data))
    await ask(kept_requests.FIND, kept_requests.RequestFind("k"))
    await ask(events.SEND, events.EventSend("app/x", {"a": 1}))
    await ask(events.WATCH, events.EventWatch("app/*", 0, 1))
    await ask(runners.CALL, runners.RunnerCall("manage.status"))
    assert (await ask(keys.LIST, keys.KeyList()))["accepted"]
    assert (await ask(keys.FINGER, keys.KeyFinger()))["minions"]
    await ask(keys.TOKEN, keys.TokenCreate())
    assert len(await ask(minions.LIST, minions.MinionList())) == 2
    await ask(minions.SHOW, minions.MinionShow("web1"))
    await ask(minions.SHOW, minions.MinionShow("absent"))
    assert (await ask(keys.CHANGE, keys.KeyChange("delete", "absent")))["changed"] == ["absent"]


async def test_replies_and_items_of_every_verb_fit_their_records() -> None:
    async with a_master() as master:
        (web1,) = await master.connect("web1")
        await master.accept("absent")
        asker = Asker(master)
        await ask_of_jobs(asker, web1)
        await ask_of_drafts(asker)
        await ask_of_a_failed_chain(asker, web1)
        await ask_of_the_rest(asker)
        assert asker.asked == contracts().keys() - UNTRIED
        assert asker.items >= {"new", "delivery", "progress", "return", "chain", "event"}


def test_untested_verbs_have_the_reply_of_a_tested_one() -> None:
    assert contracts()["chain.release"].reply() is chains.CANCEL.reply()
