"""Failpoints: off unless asked for and allowed; counted over processes; all in one list."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from catena.core import failpoints
from catena.core.errors import UsageError
from catena.core.failpoint_rules import FAILPOINTS, FailpointRule, Failpoints, parse

ROOT = Path(__file__).parents[3]
_HIT = re.compile(r'failpoints\.hit\(\s*"([^"]*)"\s*\)')


def test_list_of_failpoints_equals_those_in_the_code() -> None:
    found = Counter(
        name
        for folder in (entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink())
        for path in folder.resolve().rglob("*.py")
        for name in _HIT.findall(path.read_text(encoding="utf-8"))
    )
    assert set(found) == set(FAILPOINTS)
    assert set(found.values()) == {1}, "one name, one place"


def test_failpoints_are_not_armed_outside_testing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, "file.write=error(ENOSPC)")
    failpoints.arm(testing=False)
    assert failpoints.VARIABLE not in os.environ, "children must not be armed either"
    failpoints.hit("file.write")


def test_armed_failpoint_fails_at_the_configured_hit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, "file.write=error(ENOSPC)@2; file.rename=sleep(1)")
    monkeypatch.delenv(failpoints.LOG_VARIABLE, raising=False)
    failpoints.arm(testing=True)
    try:
        failpoints.hit("file.write")
        with pytest.raises(OSError, match=r"failpoint file\.write") as caught:
            failpoints.hit("file.write")
        assert caught.value.errno == errno.ENOSPC
        failpoints.hit("file.write")
        failpoints.hit("file.rename")
        failpoints.hit("journal.write")
    finally:
        failpoints.arm(testing=False)


def test_hits_of_a_failpoint_are_counted_across_processes(tmp_path: Path) -> None:
    log = tmp_path / "hits"
    code = (
        "from catena.core.failpoint_rules import Failpoints, FailpointRule\n"
        f"rules = {{'file.write': FailpointRule('kill', 0, 2)}}\n"
        f"Failpoints(rules, {str(log)!r}).hit('file.write')\n"
    )
    codes = [subprocess.run([sys.executable, "-c", code], check=False).returncode for _ in "123"]
    assert codes == [0, -9, 0]
    assert len(log.read_text().splitlines()) == 3


def test_hits_of_other_failpoints_are_not_counted(tmp_path: Path) -> None:
    points = Failpoints({"file.write": FailpointRule("sleep", 0, 1)}, str(tmp_path / "hits"))
    points.hit("file.rename")
    assert not (tmp_path / "hits").exists()


@pytest.mark.parametrize(
    "text",
    ["file.wrte=kill", "file.write=explode", "file.write=error(ENOTHING)", "file.write", "=kill"],
)
def test_invalid_failpoint_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="failpoint"):
        parse(text)
