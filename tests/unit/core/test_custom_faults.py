"""Faults of custom files, error_line in one line."""

from __future__ import annotations

from types import ModuleType

import pytest

from catena.core.custom_faults import error_line, error_text, file_name, module_name
from catena.core.errors import CommandExecutionError

TEXT = """
def key():
    return {}["gone"]

def on_purpose(kind):
    raise kind("no more paper")

def ends():
    raise SystemExit(3)
"""


@pytest.fixture(name="paper")
def _paper() -> ModuleType:
    made = ModuleType(module_name("modules", "paper"))
    exec(compile(TEXT, "paper.py", "exec"), vars(made))
    return made


def raised(call: object, *args: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value


def test_file_name_is_derived_from_the_name_of_a_custom_module() -> None:
    assert file_name(module_name("states", "paper")) == "salt://_states/paper.py"


def test_error_of_a_custom_module_names_file_and_line(paper: ModuleType) -> None:
    assert error_line(raised(paper.key)) == "KeyError: gone; salt://_modules/paper.py:3"
    error = raised(paper.on_purpose, ValueError)
    assert error_line(error) == "ValueError: no more paper; salt://_modules/paper.py:6"
    error = raised(paper.ends)
    assert error_line(error) == "it ended the process with status 3; salt://_modules/paper.py:9"


def test_deliberate_error_of_a_custom_module_shows_only_its_text(paper: ModuleType) -> None:
    assert error_line(raised(paper.on_purpose, CommandExecutionError)) == "no more paper"


def test_syntax_error_names_its_line_in_the_loaded_file() -> None:
    error = raised(compile, "a = 1\nb = (\n", "x", "exec")
    assert error_line(error, "salt://_modules/x.py").endswith("; salt://_modules/x.py:2")


def test_long_error_text_is_truncated() -> None:
    assert len(error_text(ValueError("x" * 9000))) == 2000
    assert error_text(ValueError()) == "ValueError"
