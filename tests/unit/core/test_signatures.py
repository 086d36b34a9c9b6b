"""What a function takes is read as `inspect` reads it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from catena.core.signatures import REQUIRED, Parameter, parameters


def _plain(a: int, b: int = 2) -> None:
    del a, b


def _every_kind(a: int, /, b: int = 2, *c: int, d: int, e: int = 5, **f: int) -> None:
    local = (a, b, c, d, e, f)
    del local


def _named(*, a: int = 1, b: int) -> None:
    del a, b


def _none() -> None:
    local = 1
    del local


@functools.wraps(_plain)
def _wrapped(*args: Any, **kwargs: Any) -> None:
    del args, kwargs


class _Callable:
    def __call__(self, x: int, *y: int) -> None:
        del x, y

    def method(self, x: int = 1) -> None:
        del x


def _inspected(call: Callable[..., Any]) -> list[Parameter]:
    found = []
    for one in inspect.signature(call).parameters.values():
        many = one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        by_place = one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)
        by_name = one.kind not in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL)
        default = REQUIRED if one.default is one.empty else one.default
        found.append(Parameter(one.name, by_place, by_name, many, default))
    return found


@pytest.mark.parametrize(
    "call",
    [_plain, _every_kind, _named, _none, _wrapped, _Callable(), _Callable().method,
     functools.partial(_plain, 1), lambda x, *y, z=0: None],
)  # fmt: skip
def test_parameters_equal_those_of_inspect(call: Callable[..., Any]) -> None:
    assert list(parameters(call)) == _inspected(call)


def test_parameter_is_required_without_a_default_unless_it_is_variadic() -> None:
    assert [one.name for one in parameters(_every_kind) if one.is_required] == ["a", "d"]
