"""Jinja filters and tests that custom files declare by Salt's decorators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.runtime.executor import FinishedJob

Run = Callable[..., FinishedJob]

SHOUT = """
from salt.utils.decorators.jinja import jinja_filter, jinja_test

@jinja_filter("shout")
def loud(text, mark="!"):
    return __salt__["test.echo"](text.upper()) + mark * __pillar__.get("n", 1)

@jinja_filter()
@jinja_filter("same")
def plain(text):
    return text

@jinja_test("loud")
def is_loud(text):
    return text.isupper()
"""


@pytest.fixture
def add(roots: Path, run: Run) -> Callable[[str, str], None]:
    def write(path: str, text: str) -> None:
        target = roots / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        run(f"saltutil.sync_{target.parent.name[1:]}")

    return write


def rendered(run: Run, text: str) -> Any:
    return run("slsutil.renderer", string=text, default_renderer="jinja").ret.value


@pytest.mark.parametrize("path", ["_modules/words.py", "_utils/words.py"])
def test_filter_of_a_custom_file_sees_salts_names(add: Any, run: Run, path: str) -> None:
    add(path, SHOUT)
    assert rendered(run, "{{ 'a' | shout }} {{ 'b' | shout(mark='?') }}") == "A! B?"
    assert rendered(run, "{{ 'c' | plain }}{{ 'd' | same }}") == "cd"
    assert rendered(run, "{{ 'A' is loud }} {{ 'a' is loud }}") == "True False"


def test_filter_of_a_file_that_is_no_module_here_works(add: Any, run: Run) -> None:
    add("_modules/words.py", SHOUT + "\ndef __virtual__():\n    return False, 'no'\n")
    assert rendered(run, "{{ 'a' | shout }}") == "A!"


def test_changed_filter_is_used_although_templates_are_cached(add: Any, run: Run) -> None:
    add("_modules/words.py", SHOUT)
    assert rendered(run, "{{ 'a' | shout }}") == "A!"
    add("_modules/words.py", SHOUT.replace("upper()", "title() + '.'"))
    assert rendered(run, "{{ 'a' | shout }}") == "A.!"


def test_unknown_filter_is_an_error_that_names_the_nearest(add: Any, run: Run) -> None:
    add("_modules/words.py", SHOUT)
    assert "No filter named 'lowerr'. Did you mean 'lower'?" in rendered(run, "{{ 1 | lowerr }}")


def test_filter_that_raises_names_its_file_and_the_template(add: Any, run: Run) -> None:
    add("_modules/words.py", SHOUT.replace("text.upper()", "1 / 0"))
    said = rendered(run, "\n{{ 'a' | shout }}")
    assert "division by zero" in said
    assert ":2" in said


def test_custom_files_are_not_loaded_for_built_in_filters(
    add: Any, run: Run, tmp_path: Path
) -> None:
    mark = tmp_path / "loaded"
    add("_modules/words.py", SHOUT + f"\nopen({str(mark)!r}, 'w').close()\n")
    mark.unlink(missing_ok=True)
    assert rendered(run, "{{ 'a' | upper }}") == "A"
    assert not mark.exists()
