"""openscap.*: the command line, and the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import UnreachableError, UsageError
from catena.modules import openscap
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran


class FakeContext:
    """Remembers what was pushed, with the names of the files."""

    def __init__(self, error: Exception | None = None) -> None:
        self.pushed: list[list[str]] = []
        self._error = error

    def call(self, name: str, path: str) -> bool:
        assert name == "cp.push_dir"
        if self._error:
            raise self._error
        self.pushed.append(sorted(one.name for one in Path(path).iterdir()))
        return True


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for oscap: returns the code that is first in the list, then notes the words."""
    told: list[Any] = [2]

    def look(context: Any, words: list[str], package: str, **_: Any) -> Ran:
        told.append(words)
        for option in ("--results", "--report"):
            Path(words[words.index(option) + 1]).write_text("x")
        return Ran(1, told[0], "", "some rules failed" if told[0] else "")

    monkeypatch.setattr(programs, "look", look)
    return told


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("eval --profile Default /a.xml", ["eval", "--profile", "Default", "/a.xml"]),
        ("eval --profile=D --remediate a", ["eval", "--profile", "D", "--remediate", "a"]),
    ],
)
def test_parameters_are_read(params: str, words: list[str]) -> None:
    assert openscap.eval_words(params) == words


@pytest.mark.parametrize(
    "params", ["", "info a", "eval", "eval a b", "eval --report /etc/passwd a", "eval --profile",
               "eval --profile --rule a", "eval 'a"]
)  # fmt: skip
def test_parameters_that_are_no_evaluation_are_refused(ran: list[Any], params: str) -> None:
    context: Any = FakeContext()
    found = openscap.xccdf(context, params)
    assert (found["success"], found["returncode"]) == (False, None) and found["error"]
    assert len(ran) == 1


def test_results_are_pushed_also_when_rules_fail(ran: list[Any]) -> None:
    context: Any = FakeContext()
    found = openscap.xccdf(context, "eval --profile Default /a.xml")
    assert (found["success"], found["returncode"]) == (True, 2)
    assert found["error"] == "some rules failed"
    assert context.pushed == [["report.html", "results.xml"]]
    assert not Path(found["upload_dir"]).exists()
    assert ran[1][:5] == ["oscap", "xccdf", "eval", "--profile", "Default"]


def test_failed_evaluation_and_refused_push_are_no_success(ran: list[Any]) -> None:
    refusing: Any = FakeContext(UnreachableError("no master"))
    assert openscap.xccdf(refusing, "eval /a.xml")["error"] == "no master"
    ran[0] = 1
    context: Any = FakeContext()
    found = openscap.xccdf_eval(context, "/a.xml", profile="P")
    assert (found["success"], found["returncode"], context.pushed) == (False, 1, [])


def test_options_of_xccdf_eval(ran: list[Any], tmp_path: Path) -> None:
    context: Any = FakeContext()
    wanted = str(tmp_path / "own.xml")
    openscap.xccdf_eval(
        context, "/a.xml", ["/o.xml"], profile="P", rule=["r1", "r2"], results=wanted,
        remediate=True, __pub_jid="1",
    )  # fmt: skip
    words = ran[1]
    assert words[3:11] == ["--profile", "P", "--rule", "r1", "--rule", "r2", "--results", wanted]
    assert "--remediate" in words and words[-2:] == ["/a.xml", "/o.xml"]
    assert context.pushed == [["own.xml", "report.html"]]
    for odd in ({"profile": "--x"}, {"colour": "red"}, {"rule": "a b"}):
        with pytest.raises(UsageError):
            openscap.xccdf_eval(context, "/a.xml", **odd)
