"""Limits of batches of chunks, and unchanged bytes after a worker process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from catena.core.records import encode
from catena.master.chains import batches
from catena.master.chains.batches import BATCH_BYTES, BATCH_MINIONS
from catena.master.chains.render import ChainPlan, render
from catena.master.chains.rendering import FEW_ACTIONS, ChunkRenderer
from tests.unit.master.chains.plans import NAMES, plan_of, planned

#: Nearly the largest that an action may be.
LARGE = "x" * 1_000_000


def carried(data: Any) -> Any:
    """Return data as they arrive at the other side of a worker's pipe."""
    packed = msgpack.packb(data, use_bin_type=True)
    return msgpack.unpackb(packed, raw=False, strict_map_key=False)


@pytest.mark.parametrize("name", NAMES)
def test_packed_batch_is_rendered_to_the_bytes_of_the_case(name: str) -> None:
    plan = plan_of(name)
    batch = {"web1": plan, "web2": replace(plan, machine_id="0" * 32)}
    done = batches.unpack_rendered(carried(batches.task(None, carried(batches.pack(batch)))))
    assert done == batches.rendered(batch)
    direct = render(plan)
    chunks = done.chains["web1"].chunks
    assert [(c.file, c.text) for c in chunks] == [(c.file, c.text) for c in direct.chunks]
    assert [c.sha256 for c in chunks] == [c.manifest.sha256 for c in direct.chunks]
    assert done.chains["web1"].manifest == encode(direct.manifest)


def test_alike_actions_are_packed_once() -> None:
    plan = plan_of(NAMES[0])
    batch = {f"web{n}": plan for n in range(9)}
    assert len(batches.pack(batch)["kinds"]) == len({id(a.plan) for a in plan.actions})


def test_failed_rendering_for_one_minion_does_not_block_others() -> None:
    good = plan_of(NAMES[0])
    done = batches.rendered({"empty": replace(good, actions=[]), "web1": good})
    assert list(done.chains) == ["web1"]
    assert done.refused == {"empty": "there is nothing to render: the minion has no actions"}


def plans(count: int, text: str = "true", actions: int = 1) -> dict[str, ChainPlan]:
    each = [planned(n, "cmd", cmd=text) for n in range(actions)]
    return {f"web{n}": ChainPlan(1, f"{n:032x}", each) for n in range(count)}


def test_render_batches_are_limited_and_keep_the_order_of_minions() -> None:
    many = plans(2 * BATCH_MINIONS + 1)
    found = [batch for batch, _ in batches.batches(many)]
    assert [len(batch) for batch in found] == [BATCH_MINIONS, BATCH_MINIONS, 1]
    assert [name for batch in found for name in batch] == list(many)


def test_batches_of_large_actions_are_smaller() -> None:
    found = list(batches.batches(plans(5, LARGE, 5)))
    assert [len(batch) for batch, _ in found] == [1] * 5
    assert all(size <= BATCH_BYTES for _, size in found)


class NoWorkers:
    """Must not be called."""

    async def call(self, task: str, params: dict[str, Any], line: str = "") -> Any:
        raise AssertionError("a worker was called")


def test_few_actions_are_rendered_without_a_worker() -> None:
    renderer = ChunkRenderer(NoWorkers())
    assert not any(apart for _, apart in renderer.for_chain(plans(FEW_ACTIONS)))
    assert all(apart for _, apart in renderer.for_chain(plans(FEW_ACTIONS + 1)))
    assert not any(apart for _, apart in ChunkRenderer().for_chain(plans(FEW_ACTIONS + 1)))


def test_batch_too_large_for_a_workers_answer_is_rendered_without_one() -> None:
    large = plans(1, LARGE, 9)
    small = plans(FEW_ACTIONS, actions=2)
    found = ChunkRenderer(NoWorkers()).for_chain({**small, "large": large["web0"]})
    assert [apart for _, apart in found] == [True] * (len(found) - 1) + [False]
