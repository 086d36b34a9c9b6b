"""A failing step of the scheduler stops neither later steps nor other chains."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CatenaError
from catena.master.chains import cleanup, late_joins
from catena.master.chains.dependencies import ChainParts
from tests.integration.master.chains.bench import HOUR, Bench, key, ret, row
from tests.integration.master.chains.steps import CMD, START, ids, pass_time, set_delivery_state


async def test_chunk_file_that_can_not_be_removed_keeps_no_other(bench: Bench) -> None:
    first = await bench.begin("first", CMD)
    folder = bench.folder / "chains" / "actionchains"
    (stuck,) = folder.iterdir()
    stuck.unlink()
    (stuck / "inside").mkdir(parents=True)
    second = await bench.begin("second", CMD)
    for label, chain in (("second", second), ("first", first)):
        (action,) = await ids(bench, label)
        jid = (await bench.job_ids(START))[0 if label == "first" else 1]
        await bench.returns(ret(jid, START, {key(chain, action, 1): row(True)}))
    await pass_time(bench, 1.0)
    assert list(folder.iterdir()) == [stuck]
    (stuck / "inside").rmdir()
    stuck.rmdir()
    await pass_time(bench, 1.0)
    assert not bench.files.overlay("web1")


@pytest.mark.parametrize("fault", [OSError("no room"), CatenaError("no"), KeyError("web1")])
@pytest.mark.parametrize("step", [(late_joins, "join"), (cleanup, "clear_files")])
async def test_failing_step_does_not_stop_the_search_for_silent_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str], fault: Exception
) -> None:
    async def fails(parts: ChainParts) -> None:
        raise fault

    await bench.begin("first", CMD)
    monkeypatch.setattr(*step, fails)
    await set_delivery_state(bench, (await bench.job_ids(START))[-1])
    await pass_time(bench, 120.0)
    await pass_time(bench, 1.5 * HOUR)
    assert await bench.states("first") == ["LOST"]
