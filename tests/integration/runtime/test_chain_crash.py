"""A chain continues after a crash before any of its disk effects.

After each stop the host comes back, either with a new agent only or with a new boot, the agent
does what an agent does (runs the job again, keeps promises, resumes on the start event), and what
the actions left outside the product is compared with what the contract allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catena.core.job import ActionKind
from catena.runtime import chain_run
from catena.runtime.host import AfterKind
from tests.integration.runtime.two_runs import STRIDE

IDEMPOTENT, ONCE = ActionKind.idempotent, ActionKind.once
REBOOT, UPGRADE = ActionKind.reboot, ActionKind.agent_upgrade


def with_reboot(host: Any) -> None:
    a = host.action
    host.render([a(1, ONCE), a(2), a(3, REBOOT)], [a(4, ONCE), a(5)])


def with_upgrade(host: Any) -> None:
    a = host.action
    host.render([a(1, ONCE), a(2, UPGRADE)], [a(3, ONCE)])


def with_final_reboot(host: Any) -> None:
    a = host.action
    host.render([a(1, ONCE), a(2, REBOOT)])


def recover(host: Any, come_back: str) -> None:
    """Bring the host back and let its agent go on until nothing is left to do."""
    if come_back == "agent":
        host.restart_agent()
    else:
        host.reboot()
    host.do(chain_run.pending_after(host.place))
    if come_back == "boot, event first":
        host.resume()
    host.do(host.start().after)  # the job has no return: it is run again
    for _ in range(6):
        host.resume()
        left = chain_run.open_chain(host.place)
        if left is None:
            return
        host.do(chain_run.pending_after(host.place))
        promised = host.start().after
        if promised is not None:
            host.do(promised)
        elif left.state == "waiting":
            host.resume()


def check(host: Any, stopped: str) -> str:
    """Compare the effects with the contract; return the chain's state."""
    kinds = {a.action_id: a.kind for c in host.manifest.chunks for a in c.actions}
    chunks = {a.action_id: c.number for c in host.manifest.chunks for a in c.actions}
    seen = host.actions_witnessed()
    state = host.chain_state()
    order = list(dict.fromkeys(seen))
    assert order == sorted(order), f"{stopped}: out of order: {seen}"
    for action, kind in kinds.items():
        count = seen.count(action)
        if kind is ONCE:
            assert count <= 1, f"{stopped}: once ran {count} times: {seen}"
    assert state in ("done", "interrupted"), f"{stopped}: {state} after {seen}"
    if state == "done":
        expected = [a for a, kind in kinds.items() if kind is not REBOOT]
        assert order == expected, f"{stopped}: done, but {seen}"
    for line in host.witnessed():
        action, boot = line.split()
        kinds_before = [k for a, k in kinds.items() if chunks[a] < chunks[int(action)]]
        if REBOOT in kinds_before:
            assert boot != "boot-1", f"{stopped}: action {action} ran before the reboot"
    assert chain_run.open_chain(host.place) is None, stopped
    assert chain_run.pending_resume(host.place) == {}, stopped
    return str(state)


def stop_everywhere(
    new_host: Callable[[str], Any], render: Callable[[Any], None], come_back: str, stride: int
) -> set[str]:
    """Stop the first chunk, and the one after the boundary, at each stride-th effect."""
    states = set()
    for phase in ("start", "resume"):
        probe = new_host(f"{phase}-probe")
        render(probe)
        prepare(probe, phase)
        finished, effects, _ = probe.in_child(job_of(probe, phase), 0)
        assert finished
        if phase == "resume" and len(probe.manifest.chunks) == 1:
            break
        assert effects > 10
        for stop in range(1, effects + 1, stride):
            host = new_host(f"{phase}-{stop}")
            render(host)
            prepare(host, phase)
            finished, _, _ = host.in_child(job_of(host, phase), stop)
            assert not finished
            recover(host, come_back)
            states.add(check(host, f"{phase} stopped at {stop} of {effects}, {come_back}"))
    return states


def prepare(host: Any, phase: str) -> None:
    if phase == "resume":
        host.do(host.start().after)


def job_of(host: Any, phase: str) -> Callable[[], Any]:
    found: Callable[[], Any] = host.start if phase == "start" else host.resume
    return found


CASES = [
    pytest.param(with_reboot, "boot", id="reboot-power_cut"),
    pytest.param(with_reboot, "agent", id="reboot-agent_killed"),
    pytest.param(with_reboot, "boot, event first", id="reboot-power_cut-event_first"),
    pytest.param(with_upgrade, "boot", id="upgrade-power_cut"),
    pytest.param(with_upgrade, "boot, event first", id="upgrade-power_cut-event_first"),
    pytest.param(with_upgrade, "agent", id="upgrade-agent_killed"),
    pytest.param(with_final_reboot, "boot", id="final_reboot-power_cut"),
    pytest.param(with_final_reboot, "agent", id="final_reboot-agent_killed"),
]


@pytest.mark.parametrize(("render", "come_back"), CASES)
def test_chain_continues_without_repetition_when_stopped_anywhere(
    new_host: Callable[[str], Any], render: Callable[[Any], None], come_back: str
) -> None:
    states = stop_everywhere(new_host, render, come_back, STRIDE)
    assert "done" in states


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("render", "come_back"), CASES)
def test_chain_continues_without_repetition_when_stopped_before_every_effect(
    new_host: Callable[[str], Any], render: Callable[[Any], None], come_back: str
) -> None:
    assert stop_everywhere(new_host, render, come_back, 1) == {"done", "interrupted"}


def test_interrupted_script_stops_the_chain_with_a_reason(new_host: Callable[[str], Any]) -> None:
    probe = new_host("probe")
    with_reboot(probe)
    _, effects, _ = probe.in_child(probe.start, 0)
    for stop in range(1, effects):
        host = new_host(f"h{stop}")
        with_reboot(host)
        host.in_child(host.start, stop)
        if host.actions_witnessed() == [1]:
            break
    host.reboot()
    outcome = host.start()
    rows = outcome.ret.value
    (row,) = rows.values()
    assert row["result"] is False
    assert "Interrupted" in row["comment"]
    assert (outcome.ret.retcode, outcome.after) == (2, None)
    assert host.chain_state() == "interrupted"
    assert host.start().ret.value == rows
    assert host.resume().ret.value == {}
    assert host.actions_witnessed() == [1]


def test_actions_finished_before_a_crash_are_in_the_return(
    new_host: Callable[[str], Any],
) -> None:
    host = new_host("h")
    with_reboot(host)
    # Stopped while the second action ran: its effect is there, its end is not recorded.
    for stop in range(20, 200):
        host = new_host(f"h{stop}")
        with_reboot(host)
        host.in_child(host.start, stop)
        if host.actions_witnessed() == [1, 2]:
            break
    host.restart_agent()
    outcome = host.start()
    assert outcome.ret.success
    assert [row["__id__"][-16:] for row in outcome.ret.value.values()][:3] == [
        "action_1_chunk_1",
        "action_2_chunk_1",
        "action_3_chunk_1",
    ]
    assert outcome.after is not None
    assert outcome.after.kind is AfterKind.reboot
    assert host.actions_witnessed() == [1, 2, 2]
