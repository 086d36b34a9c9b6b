"""loop.* with functions that return one value after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.plugins import FunctionMark, Plugin, Registry
from catena.states import loop
from tests.unit.states.conftest import MakeWorld


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(loop, "time", made)
    yield made


class Functions(Registry):
    """The function `count.up`, which returns how often it was called."""

    def __init__(self) -> None:
        super().__init__("function", {}, FunctionMark)
        self.calls: list[Any] = []

    def __getitem__(self, name: str) -> Plugin:
        if name == "count.same":
            return Plugin(name, lambda context, left, right: left == right, FunctionMark(name))
        if name != "count.up":
            return super().__getitem__(name)
        return Plugin(name, self._up, FunctionMark(name))

    def _up(self, context: Context, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return {"n": len(self.calls), "names": ["web1"]}


@pytest.fixture
def functions() -> Functions:
    return Functions()


@pytest.fixture
def context(world: MakeWorld, functions: Functions) -> Context:
    return world().context.with_(functions=functions)


def test_until_ends_with_its_condition(
    context: Context, functions: Functions, clock: Clock
) -> None:
    condition = "m_ret['n'] >= 3 and any(one.startswith('web') for one in m_ret['names'])"
    found = loop.until(
        context, "count.up", m_args=["a"], m_kwargs=[{"k": 1}], condition=condition, period=2
    )
    assert (found.result, found.changes) == (True, {})
    assert found.comment == f"Condition {condition} was met"
    assert functions.calls == [(("a",), {"k": 1})] * 3
    assert clock.now == 4


def test_until_gives_up(context: Context, functions: Functions) -> None:
    found = loop.until(context, "count.up", condition="False", period=5, timeout=12)
    assert found.result is False
    assert found.comment == "Timed out while waiting for condition False"
    assert len(functions.calls) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "no.such"}, "Cannot find module no.such"),
        ({"condition": None}, "An exit condition must be specified"),
        ({"period": "often"}, "Period must be specified as a float in seconds"),
        ({"timeout": None}, "Timeout must be specified as a float in seconds"),
        ({"condition": "m_ret ="}, "is no expression of Python"),
        ({"condition": "open('/etc/passwd')"}, "name in the condition 'open'"),
        ({"condition": "m_rat == 1"}, "did you mean"),
        ({"condition": "m_ret.__class__"}, "which is private"),
        ({"condition": "m_ret['x']"}, "The condition failed for a dict: KeyError"),
        ({"condition": "1", "m_args": "a"}, "m_args must be a list, not str"),
    ],
)
def test_until_names_a_mistake(context: Context, arguments: dict[str, Any], told: str) -> None:
    given = {"condition": "True", **arguments}
    found = loop.until(context, given.pop("name", "count.up"), **given)
    assert found.result is False
    assert told in found.comment


@pytest.mark.parametrize(
    ("expected", "operator"),
    [
        ({"n": 2, "names": ["web1"]}, "eq"),
        ({"n": 2, "names": ["web1"]}, "count.same"),
        ("n:2", "data.subdict_match"),
    ],
)
def test_until_no_eval_compares(
    context: Context, functions: Functions, clock: Clock, expected: Any, operator: str
) -> None:
    found = loop.until_no_eval(
        context, "count.up", expected, operator, init_wait=7, args=["a"], kwargs={"k": 1}
    )
    assert (found.result, found.changes) == (True, {})
    assert found.comment == "Call provided the expected results in 2 attempts"
    assert functions.calls == [(("a",), {"k": 1})] * 2
    assert clock.now == 8


@pytest.mark.parametrize(
    ("name", "operator", "told"),
    [
        ("count.up", "eq", "Call did not produce the expected result after 60 attempts"),
        ("count.up", "lt", "Exception occurred while executing count.up: TypeError"),
        ("count.up", "equals", 'Invalid operator "equals" supplied.'),
        ("count.up", "no.such", 'Invalid operator "no.such" supplied.'),
        ("no.such", "eq", 'Module.function "no.such" is unavailable.'),
    ],
)
def test_until_no_eval_fails(context: Context, name: str, operator: str, told: str) -> None:
    found = loop.until_no_eval(context, name, 1, operator)
    assert found.result is False
    assert told in found.comment


def test_nothing_is_called_in_test_mode(context: Context, functions: Functions) -> None:
    dry = context.with_(test=True)
    assert loop.until(dry, "count.up", condition="True").result is None
    found = loop.until_no_eval(dry, "count.up", 1)
    assert found.result is None
    assert found.comment == 'Would have waited for "count.up" to produce "1".'
    assert functions.calls == []
