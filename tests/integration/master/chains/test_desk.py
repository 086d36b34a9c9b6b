"""Drafts, approval, due times, rendering and previews of chains."""

from __future__ import annotations

import asyncio
import errno
import os
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.client.requests.blobs import BlobPut
from catena.client.requests.chains import (
    ChainAdd,
    ChainCreate,
    ChainDocument,
    ChainEdit,
    ChainMove,
    ChainRef,
    ChainRemoveEntry,
    ChainSchedule,
)
from catena.core.errors import (
    CatenaError,
    InvalidStateError,
    NotFoundError,
    TryLaterError,
    UsageError,
)
from catena.core.job import FunctionCall
from catena.master.chains import dispatch
from catena.master.chains.dependencies import ChainParts
from catena.master.chains.files import MissingUploadError
from catena.master.executions import due
from catena.master.executions.ledger import ConflictError
from catena.master.jobs.model import JobRequest
from catena.master.store.tables import MINIONS
from catena.transport.messages.session import TRANSACTIONAL_CHUNKS
from tests.integration.master.chains.bench import (
    HOUR,
    Bench,
    a_bench,
    action,
    key,
    ret,
    row,
)
from tests.support.waiting import PATIENCE_SECONDS

START = "mgractionchains.start"
SCRIPT = b"#!/bin/sh\necho hello\n"
DIGEST = sha256(SCRIPT).hexdigest()
CMD = ("cmd", {"cmd": "true"})


async def titles(bench: Bench, label: str, minion: int = 0) -> list[tuple[int, str]]:
    view = await bench.show(label)
    return [(a["sort_order"], a["title"]) for a in view["minions"][minion]["actions"]]


async def test_entries_are_added_edited_moved_and_removed(tmp_path: Path) -> None:
    async with a_bench(tmp_path, ("web1", "web2")) as bench:
        service = bench.chains.service
        await service.create(ChainCreate("patch"), "alice")
        for line in ("one", "two", "three"):
            await service.add(ChainAdd("patch", "*", action("cmd", cmd=line)), "alice")
        await service.add(ChainAdd("patch", "web2", action("highstate")), "alice")
        await service.move(ChainMove("patch", 2, 0), "alice")
        assert await titles(bench, "patch") == [(0, "Run three"), (1, "Run one"), (2, "Run two")]
        await service.edit(ChainEdit("patch", 1, action("reboot")), "alice")
        await service.remove_entry(ChainRemoveEntry("patch", 0), "alice")
        assert await titles(bench, "patch") == [(0, "Reboot"), (1, "Run two")]
        await service.remove_entry(ChainRemoveEntry("patch", 1, ("web1",)), "alice")
        assert await titles(bench, "patch") == [(0, "Reboot")]
        assert await titles(bench, "patch", 1) == [
            (0, "Reboot"),
            (1, "Run two"),
            (2, "Apply highstate"),
        ]
        with pytest.raises(NotFoundError):
            await service.edit(ChainEdit("patch", 9, action("reboot")), "alice")
        with pytest.raises(NotFoundError, match="catena chain create other"):
            await service.edit(ChainEdit("other", 0, action("reboot")), "alice")
        with pytest.raises(UsageError):
            await service.move(ChainMove("patch", 0, 9), "alice")


async def test_invalid_operation_names_the_state_and_the_possible_operations(bench: Bench) -> None:
    service = bench.chains.service
    await bench.apply("patch", CMD)
    expected = r"can't approve chain 'patch' \(1\): it is draft; possible now: schedule"
    with pytest.raises(InvalidStateError, match=expected):
        await service.approve(ChainRef("patch"), "alice")


async def test_label_of_an_unfinished_chain_is_refused(bench: Bench) -> None:
    first = await bench.apply("patch", CMD)
    with pytest.raises(UsageError):
        await bench.chains.service.create(ChainCreate("patch"), "alice")
    assert await bench.apply("patch", CMD, CMD) == first
    assert len(await titles(bench, "patch")) == 2
    await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
    for state in ("scheduled", "dispatched"):
        with pytest.raises(UsageError, match=rf"'patch' \({first}\), which is {state}.*--again"):
            await bench.apply("patch", CMD)
        await bench.chains.scheduler.tick()
    beside = ChainCreate("patch", again=True)
    second = await bench.chains.service.create(beside, "alice")
    assert second.id != first
    with pytest.raises(UsageError, match=rf"'patch' \({second.id}\), which is draft"):
        await bench.chains.service.create(beside, "alice")
    await bench.chains.service.delete(ChainRef(str(second.id)), "alice")
    await bench.chains.service.cancel(ChainRef(str(first)), "alice")
    assert await bench.apply("patch", CMD) != first


async def test_id_of_a_chain_wins_over_the_same_number_as_a_label(bench: Bench) -> None:
    service = bench.chains.service
    first = await bench.apply("patch", CMD)
    second = (await service.create(ChainCreate(str(first)), "alice")).id
    assert (await bench.show(str(first)))["label"] == "patch"
    await service.add(ChainAdd(str(first), "*", action("cmd", cmd="more")), "alice")
    assert len(await titles(bench, "patch")) == 2
    await service.schedule(ChainSchedule(str(first)), "alice")
    with pytest.raises(
        InvalidStateError, match=rf"'{first}' \({second}\) is one, name it {second}"
    ):
        await service.add(ChainAdd(str(first), "*", action("reboot")), "alice")
    assert (await service.cancel(ChainRef(str(first)), "alice")).id == first
    assert (await service.delete(ChainRef(str(first)), "alice")).id == first
    # A repeated command deletes no other chain.
    with pytest.raises(NotFoundError, match=f"no chain {first}; .* catena chain delete {second}"):
        await service.delete(ChainRef(str(first)), "alice")
    assert (await service.delete(ChainRef(str(second)), "alice")).id == second


async def test_scheduling_an_empty_draft_or_a_past_time_is_refused(bench: Bench) -> None:
    service = bench.chains.service
    await service.create(ChainCreate("empty"), "alice")
    with pytest.raises(UsageError):
        await service.schedule(ChainSchedule("empty"), "alice")
    await bench.apply("patch", CMD)
    past = bench.clock.now().timestamp() - HOUR
    with pytest.raises(UsageError):
        await service.schedule(ChainSchedule("patch", past), "alice")
    with pytest.raises(NotFoundError, match="patch"):
        await service.show(ChainRef("pathc"), "alice")
    with pytest.raises(CatenaError):
        await service.apply(ChainDocument("x", ({"tgt": "*"},)), "alice")


async def test_chain_waits_for_its_approval_and_for_its_time(bench: Bench) -> None:
    await bench.apply("patch", CMD)
    at = bench.clock.now().timestamp() + 2 * HOUR
    await bench.chains.service.schedule(ChainSchedule("patch", at, True), "alice")
    bench.clock.advance(HOUR)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["PENDING_APPROVE"]
    line = await bench.chains.service.approve(ChainRef("patch"), "bob")
    assert line.state == "scheduled"
    assert (await bench.show("patch"))["approved_by"] == "bob"
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["PENDING_SCHEDULE"]
    bench.clock.advance(HOUR)
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["NEW"]


async def test_chain_more_than_a_day_late_is_rejected_with_the_reason(bench: Bench) -> None:
    await bench.apply("patch", CMD)
    await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
    bench.clock.advance(25 * HOUR)
    await bench.restart()
    await bench.chains.scheduler.tick()
    view = await bench.show("patch")
    assert view["state"] == "failed"
    assert view["reason"] == "rejected: it is 25 h late, more than 24 h"
    assert view["minions"][0]["actions"][0]["state"] == "FAILED"
    assert await bench.job_ids(START) == []


async def test_scheduled_chain_waits_for_a_decision_after_a_clock_step(bench: Bench) -> None:
    await bench.apply("patch", CMD)
    at = bench.clock.now().timestamp() + 2 * HOUR
    await bench.chains.service.schedule(ChainSchedule("patch", at), "alice")
    bench.clock.step(3 * HOUR)
    await bench.chains.scheduler.tick()
    view = await bench.show("patch")
    assert (view["state"], view["minions"][0]["actions"][0]["state"]) == (
        "waiting",
        "PENDING_SCHEDULE",
    )
    assert "clock was set forward by 3 h" in view["reason"]
    await bench.chains.service.release(ChainRef("patch"), "bob")
    await bench.chains.scheduler.tick()
    assert await bench.states("patch") == ["NEW"]


async def test_due_chain_is_claimed_once_across_restarts_of_the_master(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    for _ in range(3):
        await bench.restart()
        await bench.chains.scheduler.tick()
    (jid,) = await bench.job_ids(START)
    # What the minion sees is known again after the restart.
    (path,) = bench.files.overlay("web1").values()
    view = await bench.show("patch")
    only = view["minions"][0]["actions"][0]["action_id"]
    assert f"mgr_actionchain_{chain}_action_{only}_chunk_1:" in path.read_text()
    await bench.returns(ret(jid, START, {key(chain, only, 1): row(True)}))
    assert (await bench.show("patch"))["state"] == "done"


async def test_two_schedulers_dispatch_a_chain_once(bench: Bench) -> None:
    await bench.apply("patch", CMD)
    await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
    ticks = [bench.chains.scheduler.tick() for _ in range(4)]
    for outcome in await asyncio.gather(*ticks, return_exceptions=True):
        assert outcome is None or isinstance(outcome, (ConflictError, InvalidStateError))
    assert len(await bench.job_ids(START)) == 1


async def test_chain_that_cannot_start_is_not_retried_without_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.apply("patch", CMD)
    await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
    await bench.apply("next", CMD)
    at = bench.clock.now().timestamp() + 0.2
    await bench.chains.service.schedule(ChainSchedule("next", at), "alice")
    tried: list[int] = []
    pauses: asyncio.Queue[float] = asyncio.Queue()
    due_runs = bench.chains.scheduler._due
    pause = due_runs.pause

    async def no_space(parts: ChainParts, chain_id: int) -> None:
        tried.append(chain_id)
        bench.clock.advance(1.0)
        raise OSError(errno.ENOSPC, "no space")

    async def noted_pause() -> float:
        pauses.put_nowait(seconds := await pause())
        return seconds

    monkeypatch.setattr(dispatch, "fire", no_space)
    monkeypatch.setattr(due_runs, "pause", noted_pause)
    task = asyncio.create_task(bench.chains.scheduler.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        first, second = await pauses.get(), await pauses.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # The second chain became due while the first was tried; then nothing is due for a tick.
    assert (first < 1.0, second) == (True, due.TICK_SECONDS)
    assert len(tried) == 3


async def test_script_is_kept_and_served_to_its_minions_while_the_chain_runs(bench: Bench) -> None:
    with pytest.raises(MissingUploadError):
        await bench.apply("patch", ("script", {"sha256": DIGEST}))
    bench.blobs.put(BlobPut(DIGEST, 0, 1, SCRIPT))
    chain = await bench.begin("patch", ("script", {"sha256": DIGEST, "name": "hi.sh"}))
    only = (await bench.show("patch"))["minions"][0]["actions"][0]["action_id"]
    seen = bench.files.overlay("web1")
    assert seen[f"scripts/script_{only}.sh"].read_bytes() == SCRIPT
    (jid,) = await bench.job_ids(START)
    await bench.returns(ret(jid, START, {key(chain, only, 1): row(True)}))
    await bench.chains.scheduler.tick()
    assert bench.files.overlay("web1") == {}


async def test_job_that_holds_the_idempotency_key_of_a_chain_is_named_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    chain = await bench.apply("patch", CMD)
    request = JobRequest(
        user="alice",
        call=FunctionCall("x.y"),
        minions=("web1",),
        idempotency_key=f"chain/{chain}/1",
    )
    other = await bench.jobs.submit(request)
    await bench.chains.service.schedule(ChainSchedule("patch"), "alice")
    await bench.chains.scheduler.tick()
    assert f"job {other.jid} has the idempotency key of chain {chain}" in caplog.text


async def test_old_upload_that_a_new_chain_uses_is_not_removed(
    bench: Bench, tmp_path: Path
) -> None:
    bench.blobs.put(BlobPut(DIGEST, 0, 1, SCRIPT))
    await bench.apply("patch", ("script", {"sha256": DIGEST}))
    kept = tmp_path / "chains" / "uploads" / DIGEST
    os.utime(kept, (1, 1))
    await bench.apply("patch", ("script", {"sha256": DIGEST}))
    # A sweep that asked before which uploads are used.
    bench.files.drop_uploads((), 1000)
    assert kept.read_bytes() == SCRIPT


async def test_render_returns_the_chunks_and_runs_nothing(bench: Bench, tmp_path: Path) -> None:
    chain = await bench.apply("patch", CMD, ("reboot", {}), CMD)
    shown = await bench.chains.service.render(ChainRef("patch"), "alice")
    names = [f"actionchains/actionchain_{chain}_machine0_{n}.sls" for n in (1, 2)]
    assert [file.file for file in shown.files] == names
    for file in shown.files:
        written = (tmp_path / "chains" / file.file).read_text()
        assert written == file.text
    assert (await bench.show("patch"))["state"] == "draft"
    assert await bench.job_ids(START) == []
    assert bench.files.overlay("web1") == {}


@pytest.mark.parametrize(
    ("grain", "wire", "stateless"),
    [(True, TRANSACTIONAL_CHUNKS, True), (True, TRANSACTIONAL_CHUNKS - 1, False)]
    + [(value, TRANSACTIONAL_CHUNKS, False) for value in (False, "yes", None)],
)
async def test_reboot_has_no_state_on_transactional_systems_of_new_agents(
    bench: Bench, grain: object, wire: int, stateless: bool
) -> None:
    grains = {"id": "web1", "inner": {"transactional": True}, "transactional": grain}
    change = sa.update(MINIONS).values(grains=grains, wire=wire)
    await bench.store.write(lambda conn: conn.execute(change) and None)
    await bench.apply("patch", CMD, ("reboot", {}), CMD)
    shown = await bench.chains.service.render(ChainRef("patch"), "alice")
    text = shown.files[0].text
    assert ("reboot_required: true" in text) is stateless
    assert ("system.reboot" in text) is not stateless


async def test_preview_is_a_job_in_test_mode_without_reboots(bench: Bench) -> None:
    chain = await bench.apply("patch", CMD, ("reboot", {}), ("apply", {"mods": ["web"]}))
    job = await bench.chains.service.preview(ChainRef("patch"), "alice")
    assert await bench.job_ids("state.sls") == [job.jid]
    (path,) = bench.files.overlay("web1").values()
    text = path.read_text()
    assert "system.reboot" not in text
    assert "schedule_next_chunk" not in text
    assert text.count("test: true") == 2
    # It is found again by a master that was restarted, and goes with its chain.
    await bench.restart()
    assert list(bench.files.overlay("web1")) == [f"actionchains/preview_{chain}.sls"]
    await bench.chains.service.delete(ChainRef("patch"), "alice")
    assert not path.exists()


async def test_chain_that_runs_cannot_be_edited_or_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.begin("patch", CMD)
    with pytest.raises(InvalidStateError):
        await bench.chains.service.add(ChainAdd("patch", "*", action("reboot")), "alice")
    with pytest.raises(InvalidStateError):
        await bench.chains.service.delete(ChainRef("patch"), "alice")
    await bench.chains.service.cancel(ChainRef("patch"), "alice")
    # Not before what runs is stopped: the scheduler knows of it by the chain's rows.
    monkeypatch.setattr("catena.master.chains.service.FENCE_PAUSE_SECONDS", 0)
    with pytest.raises(TryLaterError):
        await bench.chains.service.delete(ChainRef("patch"), "alice")
    await bench.chains.scheduler.tick()
    assert len(await bench.job_ids("mgractionchains.clean")) == 1
    await bench.chains.service.delete(ChainRef("patch"), "alice")
    with pytest.raises(NotFoundError):
        await bench.show("patch")


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("reboott", {}, "did you mean 'reboot'|reboot"),
        ("call", {"fun": "mgractionchains.next"}, "can't be converted to a state"),
        ("call", {"fun": "system.reboot"}, "use a reboot action"),
        ("apply", {"mods": []}, "at least one SLS"),
        ("apply", {"mods": ["../../etc"]}, "SLS"),
        ("install", {"packages": [["a;rm -rf /", ""]]}, "package name"),
        ("script", {"sha256": "../../x"}, "SHA-256"),
        ("cmd", {"cmd": "x", "runas": "a b"}, "user name"),
        ("upgrade_agent", {"sha256": "0" * 64, "filename": "../x.whl"}, "wheel"),
        ("reboot", {"at_minutes": -1}, "from 0 to"),
        ("highstate", {"pillar": {}}, "pillar"),
    ],
)
async def test_invalid_action_is_refused_with_the_reason(
    bench: Bench, kind: str, data: dict[str, object], said: str
) -> None:
    with pytest.raises(CatenaError, match=said):
        await bench.apply("patch", (kind, data))
