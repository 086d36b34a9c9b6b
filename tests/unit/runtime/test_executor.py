from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.job import JobSpec
from catena.core.plugins import FunctionMark
from catena.fileserver.roots import RootsClient
from catena.runtime.executor import FinishedJob, execute, judge
from catena.runtime.host import AgentHome
from catena.runtime.session import JobSession, local_session

Run = Callable[..., FinishedJob]


def test_function_gives_its_value(run: Run) -> None:
    outcome = run("test.echo", "hello")
    ret = outcome.ret
    assert (ret.value, ret.success, ret.retcode, outcome.raised) == ("hello", True, 0, False)
    assert ret.fun_args == ("hello",)
    assert ret.duration_seconds >= 0


def test_keywords_are_reported_last_among_the_arguments(run: Run) -> None:
    assert run("test.echo", text="hello").ret.fun_args == ({"text": "hello"},)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "expected"),
    [
        (
            "test.pin",
            (),
            {},
            "'test.pin' is not available. Did you mean 'test.ping'?",
        ),
        ("tets.ping", (), {}, "Did you mean 'test.ping'?"),
        ("nodot", (), {}, "'nodot' is not available."),
        ("test.echo", (), {"tex": 1}, "unknown argument 'tex'; did you mean 'text'?"),
        ("test.echo", (), {}, "argument 'text' is missing"),
        ("test.echo", ("a", "b"), {}, "takes 1 positional arguments, 2 were given"),
    ],
)
def test_wrong_call_suggests_the_nearest_name(
    run: Run, fun: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    outcome = run(fun, *args, **kwargs)
    assert expected in outcome.ret.value
    assert (outcome.ret.success, outcome.ret.retcode, outcome.raised) == (False, 1, True)


@pytest.mark.parametrize(
    ("fails", "value", "said", "code"),
    [
        ("", False, None, 0),
        ("bool", False, None, 1),
        ("bool", None, None, 0),
        ("states", {"a": {"result": True}, "b": {"result": None}}, None, 0),
        ("states", {"a": {"result": True}, "b": {"result": False}}, None, 2),
        ("states", ["error"], None, 1),
        ("states", {"not_resumed": "why"}, None, 0),
        ("", "text", 7, 7),
        ("", "text", True, 0),
    ],
)
def test_job_is_judged_as_salt_does(fails: str, value: Any, said: Any, code: int) -> None:
    assert judge(FunctionMark(fails=fails), value, said) == code


def test_value_that_is_too_large_is_shortened_and_says_so(session: JobSession) -> None:
    spec = JobSpec("2" * 20, "test.echo", ("x" * 100_000,), {}, output_limit=10_000)
    ret = execute(session, spec).ret
    assert ret.truncated
    assert ret.success
    assert len(ret.value) < 10_000
    assert "more" in ret.value


def test_broken_pillar_fails_only_functions_that_read_it(place: AgentHome, roots: Path) -> None:
    errors = ("Rendering SLS 'web' failed: web.sls:3",)
    session = local_session(place, RootsClient({"base": [str(roots)]}), lambda *_: ({}, errors))
    spec = JobSpec("2" * 20, "test.ping")
    assert execute(session, spec).ret.success
    ret = execute(session, dataclasses.replace(spec, fun="pillar.get", args=("a",))).ret
    assert ret.retcode == 1
    assert errors[0] in ret.value


def test_return_names_the_boot_in_which_the_job_ended(run: Run) -> None:
    assert len(run("test.ping").ret.boot_id) == 36


def test_outside_a_chain_no_reboot_can_be_armed(session: JobSession) -> None:
    from catena.core.context import RebootRequest

    assert session.host.arm_reboot(RebootRequest()) is False
