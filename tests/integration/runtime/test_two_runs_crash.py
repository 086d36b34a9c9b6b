"""Two runs of a chain and a clean survive a crash before any disk effect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.job import ActionKind
from catena.runtime import chain_run
from tests.integration.runtime import conftest
from tests.integration.runtime.two_runs import STRIDE, bring_to_reboot, resume_file

REBOOT, ONCE = ActionKind.reboot, ActionKind.once
CHAIN = conftest.CHAIN
CLEAN = {"actionchain_id": CHAIN, "epoch": 1}


def stops(new_host: Callable[[str], Any], job: Callable[[Any], Any]) -> list[Any]:
    """Return hosts on which *job* was stopped, each in front of another effect.

    On every host run 1 waits for its resume, and run 2 is rendered.
    """
    found: list[Any] = []
    probe = prepared(new_host("probe"))
    finished, effects, _ = probe.in_child(lambda: job(probe), 0)
    assert finished
    assert effects > 3
    for stop in range(1, effects + 1, STRIDE if effects > 40 else 1):
        host = prepared(new_host(f"stop-{stop}"))
        finished, _, _ = host.in_child(lambda host=host: job(host), stop)
        assert not finished
        host.restart_agent()
        found.append(host)
    return found


def prepared(host: Any) -> Any:
    bring_to_reboot(host)
    a = host.action
    host.render([a(4, ONCE), a(5, REBOOT)], [a(6, ONCE)], epoch=2)
    return host


def epoch_of(host: Any) -> int:
    found = chain_run.chain_state(host.place, CHAIN)
    return found.epoch if found else 0


def go_to_the_end(host: Any) -> list[int]:
    """Let run 2 go on as its job and the start events make it; return what it did."""
    for _ in range(6):
        host.do(host.start().after)
        host.do(chain_run.pending_after(host.place))
        host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=2)
        if chain_run.open_chain(host.place) is None:
            break
    return [action for action in host.actions_witnessed() if action > 3]


@pytest.mark.parametrize("first", ["start", "named", "unnamed", "clean"])
def test_newer_run_survives_a_crash_at_any_effect_of_its_start(
    new_host: Callable[[str], Any], first: str
) -> None:
    for host in stops(new_host, lambda host: host.start()):
        # Whatever comes first when the agent is back: nothing of run 1 may run.
        if first == "named":
            host.call("mgractionchains.resume", actionchain_id=CHAIN, epoch=2)
        elif first == "unnamed" and epoch_of(host) == 2:
            host.resume()
        elif first == "clean":
            host.call("mgractionchains.clean", **CLEAN)
        did = go_to_the_end(host)
        assert did == sorted(set(did)), host.folder
        assert set(host.actions_witnessed()) & {3} == set(), host.folder
        state = host.chain_state()
        # A `once` that the stop met has no known outcome; it is not begun a second time.
        assert (state, did) in (("done", [4, 6]), ("interrupted", [4]), ("interrupted", [])), (
            host.folder,
            state,
            did,
        )
        assert not resume_file(host).exists()


def test_clean_that_crashed_at_any_effect_is_finished_by_the_next_one(
    new_host: Callable[[str], Any],
) -> None:
    for host in stops(new_host, lambda host: host.call("mgractionchains.clean", **CLEAN)):
        said = host.call("mgractionchains.clean", **CLEAN)
        assert said.ret.success
        for place in (resume_file(host), Path(f"{resume_file(host)}.running")):
            assert not place.exists()
        assert host.chain_state() == "cancelled"
        assert go_to_the_end(host) == [4, 6]
        assert host.chain_state() == "done"
