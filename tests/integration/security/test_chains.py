"""Forged results of chains affect only actions of the minion that sent them."""

from __future__ import annotations

from typing import Any

import pytest

from catena.client.requests import chains
from catena.client.requests.chains import ChainRef
from catena.core.job import JobProgress
from catena.transport.messages import JobOrder, JobProgressed, JobReturned, ReturnStored
from tests.integration.security.hostile import Hostile, Site, schedule

ADOPTED = "20260101000000000001"


def shown(site: Site, label: str, minion: str) -> dict[str, Any]:
    """Return one minion's part of a chain."""
    found = site.ask(chains.SHOW, ChainRef(label))
    (part,) = (part for part in found["minions"] if part["minion"] == minion)
    return dict(part)


def order_of(minion: Hostile, chain: int) -> str:
    """Return the jid of the job that begins a chain, answering others."""
    while True:
        spec = minion.receive(JobOrder, 20).spec
        if spec.payload is not None and spec.payload.number == chain:
            return spec.jid
        minion.ask(JobReturned(minion.ret(spec.jid, spec.fun, {})))


def results(chain: int, actions: list[int], machine: str) -> dict[str, Any]:
    """Return what a chunk that went well would have returned."""
    return {
        f"mgrcompat_|-mgr_actionchain_{chain}_action_{action}_chunk_1_|-x_|-module_run": {
            "result": True, "changes": {}, "comment": "forged", "__run_num__": number,
            "__sls__": f"actionchains.actionchain_{chain}_{machine}_1", "start_time": "01:00:00.0",
            "duration": 1.0, "name": "x", "__id__": "x",
        }
        for number, action in enumerate(actions)
    }  # fmt: skip


@pytest.fixture(scope="module")
def chain(site: Site, evil: Hostile, victim: Hostile) -> int:
    return schedule(site, "shared", "victim,evil", "true")


def test_minion_cannot_change_actions_of_another(
    site: Site, evil: Hostile, victim: Hostile, chain: int
) -> None:
    jid, own = order_of(victim, chain), order_of(evil, chain)
    assert jid == own
    theirs = [action["action_id"] for action in shown(site, "shared", "victim")["actions"]]
    forged = results(chain, theirs, "machine-victim")
    # Under its own order, and under a job that it says it began itself.
    before = shown(site, "shared", "victim")
    for said in (own, ADOPTED):
        ret = evil.ret(said, "mgractionchains.start", forged)
        assert evil.ask(JobReturned(ret)) == ReturnStored(said)
    for event in ("begin", "end"):
        data = {"chain_id": chain, "action_id": theirs[0], "event": event, "outcome": "done"}
        evil.say(JobProgressed(JobProgress(own, len(event), "action", data)))
    evil.ping()
    assert shown(site, "shared", "victim") == before
    assert {a["state"] for a in shown(site, "shared", "evil")["actions"]} != {"DONE"}
