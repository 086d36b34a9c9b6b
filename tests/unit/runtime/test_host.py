from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import InvalidStateError, LimitError
from catena.core.job import JobProgress, JobSpec
from catena.fileserver.roots import RootsClient
from catena.runtime import host as hosts
from catena.runtime.executor import execute
from catena.runtime.host import AgentHome, AgentService, RemoteHost
from catena.runtime.session import remote_session

#: A job that the agent runs.
OTHER = "20260202000000000000"


class Agent:
    """An agent that writes down what it is told."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.steps: list[JobProgress] = []

    def pillar(
        self, saltenv: str, pillarenv: str, override: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        self.asked.append(("pillar", saltenv, pillarenv, dict(override)))
        return {"k": "v", **override}, ()

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        self.asked.append(("fire", tag, dict(data)))
        return True

    def hand_over(self, tag: str, data: Mapping[str, Any]) -> None:
        self.asked.append(("hand over", tag, dict(data)))

    def settle(self) -> None:
        self.asked.append("settle")

    def progress(self, progress: JobProgress) -> None:
        self.steps.append(progress)

    def output(self, jid: str, at: int, size: int, stream: str, text: str) -> bool:
        self.asked.append(("output", text))
        return True

    def peer(self, call: Any) -> Any:
        self.asked.append(("peer", call))
        return "answer"

    def push(self, part: Any) -> object:
        self.asked.append(("push", part.path, part.index, part.count, bytes(part.data)))
        return None

    def grains(self, grains: Mapping[str, Any]) -> bool:
        self.asked.append(("grains", grains["id"]))
        return True

    def running(self) -> list[dict[str, Any]]:
        return [{"jid": OTHER, "fun": "cmd.run"}]

    def signal(self, jid: str, signal: int) -> str:
        return f"{jid} {signal}"

    def moving(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        return contextlib.nullcontext(lambda: self.asked.append(("moved",)))


@pytest.fixture
def agent() -> Agent:
    return Agent()


def call(agent: AgentService, place: AgentHome, fun: str, *args: Any) -> Any:
    spec = JobSpec("20260101000000000000", fun, args)
    files = RootsClient({"base": [str(place.cache_dir)]})
    return execute(remote_session(place, spec, agent, files), spec).ret.value


def test_job_that_looks_at_no_pillar_asks_for_none(agent: Agent, place: AgentHome) -> None:
    assert call(agent, place, "test.ping") is True
    assert agent.asked == []


def test_pillar_is_asked_for_once_by_its_first_reader(agent: Agent, place: AgentHome) -> None:
    place = dataclasses.replace(
        place, settings=dataclasses.replace(place.settings, pillarenv="prod")
    )
    assert call(agent, place, "pillar.raw") == {"k": "v"}
    assert agent.asked == [("pillar", "", "prod", {})]


def test_agent_facts_are_requested_from_the_agent(agent: Agent, place: AgentHome) -> None:
    assert call(agent, place, "saltutil.find_job", OTHER)["fun"] == "cmd.run"
    assert call(agent, place, "saltutil.kill_job", OTHER) == f"{OTHER} 9"
    assert call(agent, place, "saltutil.refresh_grains") is True
    assert agent.asked == [("grains", "web1")]


def test_formulas_learn_which_of_salts_programs_runs_them(place: AgentHome) -> None:
    assert hosts.options(place)["__cli"] == "salt-call"
    under_an_agent = dataclasses.replace(place, session="s1")
    assert hosts.options(under_an_agent)["__cli"] == "salt-minion"


def test_progress_is_numbered_from_one(agent: Agent, place: AgentHome) -> None:
    spec = JobSpec("20260101000000000000", "test.ping")
    host = RemoteHost(place, RootsClient({}), agent, spec)
    host.progress("note", {"text": "a"})
    host.progress("note", {"text": "b"})
    assert [(p.jid, p.seq, p.data["text"]) for p in agent.steps] == [
        (spec.jid, 1, "a"),
        (spec.jid, 2, "b"),
    ]


def test_configured_reboot_command_is_used(agent: Agent, place: AgentHome) -> None:
    settings = dataclasses.replace(place.settings, reboot_command=["/sbin/my", "reboot"])
    spec = JobSpec("20260101000000000000", "test.ping")
    host = RemoteHost(dataclasses.replace(place, settings=settings), RootsClient({}), agent, spec)
    assert host.reboot_command() == ["/sbin/my", "reboot"]


def test_host_without_a_reboot_command_reports_it(
    agent: Agent, place: AgentHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hosts, "REBOOT_COMMANDS", (("no-such-program",),))
    spec = JobSpec("20260101000000000000", "test.ping")
    with pytest.raises(InvalidStateError, match="reboot_command"):
        RemoteHost(place, RootsClient({}), agent, spec).reboot_command()


# -- events ---------------------------------------------------------------------------------------


def test_events_of_a_job_are_settled_before_it_has_an_outcome(
    agent: Agent, place: AgentHome
) -> None:
    assert call(agent, place, "event.send", "a/tag", {"x": 1}) is True
    (over, settled) = agent.asked
    assert over[:2] == ("hand over", "a/tag") and settled == "settle"


def test_event_that_can_not_be_kept_fails_the_job(agent: Agent, place: AgentHome) -> None:
    def settle() -> None:
        raise LimitError("10000 events wait for the master already")

    agent.settle = settle  # type: ignore[method-assign]
    told = call(agent, place, "event.send", "a/tag", {"x": 1})
    assert told == "ERROR: 10000 events wait for the master already"


def test_in_states_each_event_is_kept_before_the_next_step(agent: Agent, place: AgentHome) -> None:
    call(agent, place, "state.single", "event.send", "a/tag")
    assert [asked[0] for asked in agent.asked if "a/tag" in asked] == ["fire"]
    assert "settle" not in agent.asked


def test_function_that_acts_waits_for_the_events_before_it(agent: Agent, place: AgentHome) -> None:
    folder = place.cache_dir / "extmods" / "modules"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(
        "def go():\n"
        "    act = __salt__['file.touch']\n"
        "    __salt__['event.send']('a/tag', {})\n"
        "    __salt__['test.ping']()\n"
        f"    act({str(place.cache_dir / 'seen')!r})\n"
        "    return __salt__['event.send']('b/tag', {})\n"
    )
    assert call(agent, place, "mine.go") is True
    told = [asked if asked == "settle" else asked[1] for asked in agent.asked]
    assert told == ["a/tag", "settle", "b/tag", "settle"]
