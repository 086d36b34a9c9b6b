"""A tree gives identical results by a master, by --local and under other hash seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet import Fleet

from tests.acceptance.conftest import make_fleet, running

TREE = Path(__file__).parents[1] / "cases/rich"
QUESTIONS = {
    "show_sls": ["state.show_sls", "app,rendered"],
    "show_low_sls": ["state.show_low_sls", "app,parts.failing,rendered"],
    "show_highstate": ["state.show_highstate"],
    "show_lowstate": ["state.show_lowstate"],
    "highstate": ["state.apply", "test=True"],
    "apply": ["state.apply", "app,rendered", "test=True"],
}
#: What may differ between two runs of the same thing.
_OF_A_RUN = ("start_time", "duration")


@pytest.fixture(scope="module")
def rich() -> Iterator[Fleet]:
    roots: dict[str, Any] = {"file_roots": {"base": [str(TREE / "states")]},
             "pillar_roots": {"base": [str(TREE / "pillar")]}}  # fmt: skip
    for fleet in running(make_fleet({"rich1": {"tier": "front"}}, **roots)):
        fleet.catena("run", "rich1", "saltutil.sync_all")
        config = yaml.safe_load((fleet.home("rich1") / "etc/catena/minion").read_text())
        config.update(roots, file_client="local", root_dir=str(fleet.folder / "alone"))
        alone = fleet.folder / "alone/etc"
        alone.mkdir(parents=True)
        (alone / "minion").write_text(yaml.safe_dump(config))
        local(fleet, "saltutil.sync_all")
        yield fleet


def comparable(answer: Any) -> str:
    """Return an answer as text, in its own order, without the times of its run."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(one) for key, one in value.items() if key not in _OF_A_RUN}
        return [cleaned(one) for one in value] if isinstance(value, list) else value

    return json.dumps(cleaned(answer), indent=1)


def local(fleet: Fleet, *words: str, seed: str = "0") -> Any:
    """Return the answer of `catena call --local`."""
    done = subprocess.run(
        [sys.executable, "-m", "catena", "call", "--local", "--config-dir",
         str(fleet.folder / "alone/etc"), *words, "--out", "json"],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["local"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_job_local_call_and_another_hash_seed_give_the_same_result(
    rich: Fleet, question: str
) -> None:
    words = QUESTIONS[question]
    done = rich.catena("run", "rich1", *words, "--out", "json", check=False)
    through_master = json.loads(done.stdout)["rich1"]
    assert len(through_master) > 10, through_master
    wanted = comparable(through_master)
    assert comparable(local(rich, *words, seed="1")) == wanted
    assert comparable(local(rich, *words, seed="4242")) == wanted


def test_compared_tree_contains_every_kind_of_result(rich: Fleet) -> None:
    rows = local(rich, "state.apply", "test=True")
    by_id = {row["__id__"]: row for row in rows.values()}
    assert {row["result"] for row in rows.values()} == {True, False, None}
    assert by_id["depends"]["comment"].startswith("One or more requisite failed: parts.failing")
    assert by_id["own state"]["name"] == "FRONT"
    assert by_id["shared"]["comment"].startswith("green ")
    assert "excluded" not in by_id and "nobody gets this" not in by_id
    assert "test_|-py differ_|-py differ_|-nop" in rows
