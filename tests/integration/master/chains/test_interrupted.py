"""Actions with an unknown outcome stop their chain until an operator resolves them."""

from __future__ import annotations

from typing import Any

import pytest

from catena.client.requests.chains import ChainRef, ChainResolve
from catena.core.errors import InvalidStateError, NotFoundError, UsageError
from tests.integration.master.chains.bench import Bench, key, ret, row
from tests.integration.master.chains.steps import CMD, START, ids


async def test_interrupted_action_is_shown_as_failed(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD, CMD)
    one, _ = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    text = "Interrupted: the host or its agent stopped while this ran"
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(False, text)}))
    first, second = (await bench.show("patch"))["minions"][0]["actions"]
    assert (first["state"], first["reason"]) == ("FAILED", "interrupted")
    assert (second["state"], second["reason"]) == ("FAILED", "Prerequisite failed")


async def cut(bench: Bench, *actions: tuple[str, dict[str, Any]]) -> tuple[int, list[int]]:
    """Let the power go in the first action of a chain; return its id and those of its actions."""
    chain = await bench.begin("patch", *actions)
    found = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    text = "Interrupted: the host or its agent stopped while this ran"
    await bench.returns(ret(jid, START, {key(chain, found[0], 1): row(False, text)}))
    return chain, found


async def test_action_marked_done_does_not_run_and_the_chain_continues_after_it(
    bench: Bench,
) -> None:
    chain, (_, two) = await cut(bench, CMD, CMD)
    await bench.chains.service.resolve(ChainResolve("patch", "mark_done"), "ann")
    assert await bench.states("patch") == ["DONE", "PENDING_SCHEDULE"]
    assert (await bench.show("patch"))["minions"][0]["actions"][0]["reason"] == (
        "marked done by ann"
    )
    await bench.chains.scheduler.tick()
    jid = (await bench.job_ids(START))[-1]
    await bench.returns(ret(jid, START, {key(chain, two, 1): row(True)}))
    assert (await bench.show("patch"))["state"] == "done"


async def test_chain_is_done_when_its_last_action_is_marked_done(bench: Bench) -> None:
    await cut(bench, CMD)
    await bench.chains.service.resolve(ChainResolve("patch", "mark_done", ("web1",)), "ann")
    assert (await bench.show("patch"))["state"] == "done"
    await bench.chains.scheduler.tick()
    assert len(await bench.job_ids(START)) == 1


async def test_interrupted_action_can_be_retried_or_cancelled(bench: Bench) -> None:
    await cut(bench, CMD, CMD)
    await bench.chains.service.resolve(ChainResolve("patch", "retry"), "ann")
    assert await bench.states("patch") == ["PENDING_SCHEDULE"] * 2
    await bench.chains.service.resolve(ChainResolve("patch", "cancel"), "ann")
    assert (await bench.show("patch"))["state"] == "cancelled"


async def test_only_interrupted_actions_can_be_resolved(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    resolve = bench.chains.service.resolve
    with pytest.raises(InvalidStateError, match="dispatched"):
        await resolve(ChainResolve("patch", "mark_done"), "ann")
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, one, 1): row(False, "exit status 1")}))
    with pytest.raises(NotFoundError, match=r"no action of chain 'patch' \(1\) is"):
        await resolve(ChainResolve("patch", "mark_done"), "ann")
    with pytest.raises(UsageError, match="mark_done"):
        await resolve(ChainResolve("patch", "markdone"), "ann")
    with pytest.raises(UsageError, match="applies to the whole chain"):
        await resolve(ChainResolve("patch", "cancel", ("web1",)), "ann")
    await bench.chains.service.cancel(ChainRef("patch"), "ann")
    assert (await bench.show("patch"))["state"] == "cancelled"
    with pytest.raises(InvalidStateError, match="none of its actions is interrupted"):
        await resolve(ChainResolve("patch", "mark_done"), "ann")
