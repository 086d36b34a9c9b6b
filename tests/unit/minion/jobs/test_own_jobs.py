from __future__ import annotations

import pytest

from catena.core.config.minion import MinionSettings
from catena.minion.jobs.own_jobs import OwnJobs, startup_call


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        ({}, None),
        ({"startup_states": "highstate"}, ("state.highstate", ())),
        ({"startup_states": "sls", "sls_list": ["a", "b"]}, ("state.sls", ("a,b",))),
        ({"startup_states": "top", "state_top": "t.sls"}, ("state.top", ("t.sls",))),
    ],
)
def test_startup_states_name_a_function(settings: dict[str, object], call: object) -> None:
    assert startup_call(MinionSettings(**settings)) == call  # type: ignore[arg-type]


def test_states_at_start_run_once_and_after_the_first_connection() -> None:
    own = OwnJobs(MinionSettings(master="m", startup_states="highstate"), False, 0.0)
    assert own.due(1.0, connected=False) == []
    assert own.due(2.0, connected=True) == [("state.highstate", ())]
    assert own.due(3.0, connected=True) == []


def test_startup_states_run_at_once_without_a_master() -> None:
    own = OwnJobs(MinionSettings(startup_states="highstate"), False, 0.0)
    assert own.due(0.0, connected=False) == [("state.highstate", ())]


def test_waiting_chain_continues_without_a_master_only_if_configured() -> None:
    local = MinionSettings(master="m", resume="local", resume_after_seconds=30)
    resume = [("mgractionchains.resume", ())]
    own = OwnJobs(local, True, 100.0)
    assert own.next_due() == 130.0
    assert own.due(129.0, connected=False) == []
    assert own.due(130.0, connected=False) == resume
    assert own.due(131.0, connected=False) == []
    assert OwnJobs(local, False, 100.0).due(1e6, connected=True) == []
    assert OwnJobs(MinionSettings(master="m"), True, 100.0).due(1e6, connected=True) == []


def test_local_resume_is_skipped_when_the_master_is_faster() -> None:
    own = OwnJobs(MinionSettings(resume="local", resume_after_seconds=30), True, 0.0)
    own.resumed()
    assert own.due(1e6, connected=True) == []
