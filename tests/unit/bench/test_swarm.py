"""Simulated minions say what real ones say; what long runs and growth are judged by."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growth import Found, Growth
from bench.soak import Sample, judge, pauses, slope
from bench.swarm.crew import Firing
from bench.swarm.minion import SimMinion
from bench.swarm.population import load, make, save
from catena.core.chain_calls import RESUME, START
from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
    JobSpec,
)
from catena.core.payloads import of_chain
from catena.master.chains import returned
from catena.transport import messages as m

JID = "20260301120000000000"


def chunk(number: int, *kinds: ActionKind, chain: int = 7) -> ChunkManifest:
    actions = tuple(
        ActionManifest(
            10 * number + n,
            f"mgr_actionchain_{chain}_action_{10 * number + n}_chunk_{number}",
            kind,
        )
        for n, kind in enumerate(kinds)
    )
    sls = f"actionchains.actionchain_{chain}_machine_{number}"
    return ChunkManifest(number, sls, "", 0, Boundary.none, actions)


def minion() -> SimMinion:
    return SimMinion("sim1", "machine1", "x" * 10)


def over_a_reboot(chain_id: int) -> ChainManifest:
    chunks = (
        chunk(1, ActionKind.idempotent, ActionKind.reboot, chain=chain_id),
        chunk(2, ActionKind.idempotent, chain=chain_id),
    )
    return ChainManifest(chain_id, "machine1", 1, chunks)


def test_ping_and_a_plain_command_are_answered_at_once_and_others_after_their_receipt() -> None:
    (pong,) = minion().ordered(JobSpec(JID, "test.ping"), 1.0)
    (ret,) = minion().ordered(JobSpec(JID, "cmd.run", ("true",)), 1.0)
    receipt, other = minion().ordered(JobSpec(JID, "state.apply"), 1.0)
    assert pong.ret.value is True
    assert (ret.ret.value, ret.ret.fun_args) == ("x" * 10, ("true",))
    assert isinstance(receipt, m.JobReceived)
    assert other.ret.fun == "state.apply"


def test_chain_reboots_and_continues_with_its_next_chunk() -> None:
    one = minion()
    _, first = one.ordered(JobSpec(JID, START, payload=of_chain(over_a_reboot(7))), 1.0)
    found = returned.read(first.ret)[7]
    assert (set(found.outcomes), found.chunks) == ({10, 11}, {1})
    assert one.reboots_after == JID
    session, boot = one.session, one.boot_id
    one.boot()
    assert one.hello().pending_resume == {"actionchain_id": 7}
    assert (one.session, one.boot_id) != (session, boot)
    _, second = one.ordered(JobSpec("2", RESUME), 2.0)
    assert set(returned.read(second.ret)[7].outcomes) == {20}
    _, third = one.ordered(JobSpec("3", RESUME), 3.0)
    assert third.ret.value == {}


def test_second_chain_starts_after_the_first_has_resumed() -> None:
    one = minion()
    one.ordered(JobSpec("1", START, payload=of_chain(over_a_reboot(7))), 1.0)
    # Between a reboot that was asked for and the boot, and between the boot and the resume.
    assert one.ordered(JobSpec("2", START, payload=of_chain(over_a_reboot(8))), 1.0) == [
        m.JobReceived("2", 0)
    ]
    _, early = one.ordered(JobSpec("3", RESUME), 2.0)
    assert set(early.ret.value) == {"not_resumed"}
    one.boot()
    assert one.hello(("1",)).open_jobs == ("1", "2")
    assert one.go_on(3.0) == []
    _, resumed, second = one.ordered(JobSpec("4", RESUME), 4.0)
    assert set(returned.read(resumed.ret)) == {7}
    assert (second.ret.jid, set(returned.read(second.ret))) == ("2", {8})
    assert one.hello().pending_resume == {"actionchain_id": 8}
    assert one.reboots_after == "2"


def test_job_of_a_chain_runs_once() -> None:
    one = minion()
    start = JobSpec("1", START, payload=of_chain(over_a_reboot(7)))
    assert len(one.ordered(start, 1.0)) == 2
    one.boot()
    assert one.ordered(start, 2.0) == [m.JobReceived("1", 0)]
    assert one.reboots_after == ""


def test_file_of_members_is_private_and_shows_no_secret(tmp_path: Path) -> None:
    members = make(2, "web")
    save(members, tmp_path / "members")
    assert load(tmp_path / "members") == members
    assert (tmp_path / "members").stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(members[0])


def test_events_are_resent_until_each_is_acknowledged() -> None:
    firing = Firing(["a"], 3, "text", 2)
    first, second = firing.more("a", 2)
    assert firing.stored("a", first.event_id)
    assert not firing.stored("a", first.event_id)
    assert firing.again("a") == [second]
    (third,) = firing.more("a", 5)
    assert firing.stored("a", second.event_id)
    assert firing.stored("a", third.event_id)
    assert (firing.acked, firing.total) == (3, 3)


def test_slope_is_not_bent_by_one_outlier() -> None:
    points = [(float(x), 2.0 * x) for x in range(10)]
    points[4] = (4.0, 500.0)
    assert slope(points) == pytest.approx(2.0)


@pytest.mark.parametrize(("per_sample", "good"), [(0.0, True), (0.001, True), (0.01, False)])
def test_growth_is_judged_behind_the_warm_up(per_sample: float, good: bool) -> None:
    warm = [Sample(5.0 * n, 50.0 + n, 1000 + n, 0.0) for n in range(60)]
    later = [Sample(300 + 5.0 * n, 110 + per_sample * n, 1040, 0.0) for n in range(300)]
    assert judge([*warm, *later]).good is good


def test_temporary_memory_under_load_is_not_counted_as_growth() -> None:
    busy = [Sample(5.0 * n, 110.0 + n % 7 + 0.1 * n, 1040, 0.0) for n in range(360)]
    calm = [
        Sample(sample.seconds, 108.0, 1040, 0.0) if pauses(sample.seconds) else sample
        for sample in busy
    ]
    assert not judge(busy).good
    assert judge(calm).memory_per_hour == 0.0


def test_descriptors_that_grow_are_seen() -> None:
    samples = [Sample(300 + 5.0 * n, 110.0, 1000 + n // 10, 0.0) for n in range(300)]
    assert judge(samples).descriptors > 0


@pytest.mark.parametrize(
    ("costs", "good"),
    [((0.2, 0.3, 1.3), True), ((0.2, 0.2, 0.21), True), ((0.1, 0.2, 10.0), False)],
)
def test_cost_may_grow_with_the_work_and_no_faster(costs: tuple[float, ...], good: bool) -> None:
    growth = Growth("states", "states", 100, lambda size: 0.0)
    assert Found(growth, costs).good is good
