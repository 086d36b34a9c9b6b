"""Messages of the SSH program survive encoding; malformed ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catena.core.context import FileEntry
from catena.core.errors import CatenaError, RecordError, UsageError
from catena.core.job import JobReturn, JobSpec
from catena.core.types import SourceLine
from catena.runtime.push import protocol as p
from catena.states.compiler.model import Low

JID = "20261121183000000000"
SHA = "a" * 64
TREE = p.Tree("base", (FileEntry("_modules/x.py", SHA, 3, 0o644),), ("empty",))
IDENTITY = p.HostIdentity("web1", {"grains": {"role": "web"}})
BRIEF = p.RunBrief("run-00001", JID, "state.apply", p.RunPhase.running, 1.5)
STEP = p.RunStep(1, "state", {"key": "a", "ret": {1: "b"}}, 2.5)

QUESTIONS: list[tuple[Any, Any]] = [
    (p.HostHello(), p.HostWelcome("0.1", "3.9.2", 1, 0, "root", "/r", "b", "m", 10, (BRIEF,))),
    (p.Open(IDENTITY, (TREE,)), p.Opened((SHA,), {"os": "Debian", "n": {1: 2}})),
    (p.Pillar({80: "http"}), p.Nothing()),
    (p.Call("test.arg", (1, "a"), {"k": b"\x00"}), p.Called({"a": (1, 2)}, None, 1)),
    (p.Call("test.no"), p.Called(None, p.Fault("KeyError", "a", "KeyError: a", True))),
    (p.Known(("test.ping",), "state"), p.KnownNames(("test.ping",))),
    (p.Has((SHA,)), p.Missing((SHA,))),
    (p.Put((p.Slice(SHA, 10, 0, 10),), True), p.Nothing()),
    (p.Start("run-00001", SHA), p.Polled(p.RunPhase.running, (STEP,), True, "b")),
    (p.Poll("run-00001", 3, 1.0), p.Polled(p.RunPhase.done)),
    (p.Supply("run-00001", 3), p.Nothing()),
    (p.Collect("run-00001", 5), p.Collected(10, SHA)),
    (p.Cancel("run-00001", "enough"), p.Polled(p.RunPhase.done)),
    (p.Ack("run-00001"), p.Nothing()),
    (p.Clean(1.0, 2.0), p.Cleaned(1, 2, 3)),
    (p.Wipe(), p.Nothing()),
]


def wire(message: Any) -> Any:
    return json.loads(json.dumps(message))


@pytest.mark.parametrize(("question", "reply"), QUESTIONS)
def test_question_and_its_answer_arrive_as_they_were(question: Any, reply: Any) -> None:
    assert p.asked(wire(p.ask(question))) == question
    assert p.answered(question, wire(p.answer(reply))) == reply


def test_questions_of_these_tests_are_all() -> None:
    assert {type(q) for q, _ in QUESTIONS} == {pair[0] for pair in p.QUESTIONS.values()}


def test_failure_arrives_as_an_error_with_its_kind() -> None:
    error = p.ProgramError(p.Trouble.parts, "2 parts are missing", (SHA,))
    with pytest.raises(p.ProgramError, match="2 parts are missing") as caught:
        p.answered(p.HostHello(), wire(p.failure(error)))
    assert (caught.value.trouble, caught.value.detail) == (p.Trouble.parts, (SHA,))


@pytest.mark.parametrize(
    "message",
    [{}, {"ask": "helo", "body": {}}, {"ask": ["hello"]}, {"ask": "poll", "body": {"run_id": 1}}],
)
def test_question_that_is_none_is_refused(message: Any) -> None:
    with pytest.raises(UsageError):
        p.asked(message)


@pytest.mark.parametrize("message", [{}, {"ok": 1}, {"trouble": "x", "text": ""}, {"ok": {}}])
def test_answer_that_is_none_is_refused(message: Any) -> None:
    with pytest.raises(RecordError):
        p.answered(p.HostHello(), message)


def test_job_comes_back_with_the_states_that_it_runs() -> None:
    low = Low("file", "managed", "/etc/motd", "/etc/motd", "motd", "base", 10000)
    low = Low(**{**low.__dict__, "args": {"contents": "x", "defaults": {1: 2}}})
    low = Low(**{**low.__dict__, "line": SourceLine("salt://motd.sls", 3), "tries": ("a",)})
    spec = JobSpec(JID, "state.apply", ("motd",))
    states = (p.LowState.of(low),)
    job = p.PushedJob(spec, IDENTITY, {"os": "x"}, {80: 1}, (TREE,), {"k": SHA}, states)
    assert p.pack_job(job).startswith(p.JOB_HEAD)
    back = p.unpack_job(p.pack_job(job))
    assert back.low is not None
    assert back.low[0].low() == low
    assert (back.files, back.rendered, back.grains) == ((TREE,), {"k": SHA}, {"os": "x"})


def test_result_comes_back() -> None:
    ret = JobReturn(JID, "test.ping", (), True, 0, True, 1.0, 2.0)
    result = p.RunResult(ret, {"kind": "reboot"}, False, True)
    assert p.unpack_result(p.pack_result(result)) == result


@pytest.mark.parametrize(
    "text", ["", "short", "../../etc/passwd", "a" * 200, "-a2345678", "a b c d e"]
)
def test_invalid_run_id_is_refused(text: str) -> None:
    with pytest.raises(CatenaError):
        p.run_id(text)
