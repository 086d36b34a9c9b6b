"""What chains leave in the store and on the disk is bounded and removed."""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa

from catena.client.requests.chains import ChainRef
from catena.master.chains import cleanup, results
from catena.master.chains.files import FRESH_SECONDS
from catena.master.store.execution_tables import HISTORY
from tests.integration.master.chains.bench import HOUR, Bench, key, ret, row
from tests.integration.master.chains.steps import CMD, RESUME, START, ids


async def test_minion_that_reports_late_again_and_again_fills_no_history(bench: Bench) -> None:
    chain = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    (jid,) = await bench.job_ids(START)
    value = {key(chain, one, 1): row(True)}
    await bench.returns(ret(jid, START, value))
    for _ in range(3 * int(results.LATE_BURST)):
        await bench.returns(ret(bench.jobs.new_jid(), RESUME, value, epochs={str(chain): 7}))

    async def count() -> int:
        query = sa.select(sa.func.count()).where(HISTORY.c.event == "late")
        return await bench.store.read(lambda conn: conn.execute(query).scalar_one())

    assert await count() == results.LATE_BURST
    bench.clock.advance(HOUR + 1)
    for _ in range(2):
        await bench.returns(ret(bench.jobs.new_jid(), RESUME, value, epochs={str(chain): 7}))
    assert await count() == results.LATE_BURST + 1
    # Another chain's history has its own limit.
    other = await bench.begin("other", CMD)
    (two,) = await ids(bench, "other")
    value = {key(other, two, 1): row(True)}
    await bench.returns(ret((await bench.job_ids(START))[-1], START, value))
    await bench.returns(ret(bench.jobs.new_jid(), RESUME, value, epochs={str(other): 7}))
    assert await count() == results.LATE_BURST + 2


async def test_chunks_of_a_chain_that_was_deleted_before_a_crash_are_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.begin("kept", CMD)
    deleted = await bench.begin("patch", CMD)
    (one,) = await ids(bench, "patch")
    jid = (await bench.job_ids(START))[-1]
    await bench.returns(ret(jid, START, {key(deleted, one, 1): row(True)}))
    with monkeypatch.context() as patch:
        patch.setattr(bench.files, "drop_chain", lambda _: None)
        await bench.chains.service.delete(ChainRef("patch"), "alice")
    await bench.restart()
    folder = bench.folder / "chains/actionchains"
    (orphan,) = folder.glob(f"actionchain_{deleted}_*")
    (kept,) = set(folder.iterdir()) - {orphan}
    fresh, other = folder / "actionchain_99_m_1.sls", folder / "actionchain_99_m_1.sls.copy"
    padded, link = folder / "actionchain_099_m_1.sls", folder / "actionchain_98_m_1.sls"
    for path in (fresh, other, padded):
        path.write_text("x")
    link.symlink_to(other)
    (folder / "actionchain_97_m_1.sls").mkdir()
    now = bench.clock.now().timestamp()
    for path in folder.iterdir():
        at = now if path == fresh else now - FRESH_SECONDS - 1
        os.utime(path, (at, at), follow_symlinks=False)
    left = set(folder.iterdir()) - {orphan}
    await cleanup.archive(bench.parts)
    assert set(folder.iterdir()) == left and kept in left
