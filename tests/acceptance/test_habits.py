"""Options that Salt's users know, against a real master."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleet import Fleet


def test_output_is_written_or_appended_to_out_file(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    done = fleet.catena("run", "*", "test.ping", "--out", "json", "--out-file", str(file))
    assert done.stdout == ""
    assert json.loads(file.read_text()) == {"db1": True, "web1": True, "web2": True}
    first = file.read_text()
    fleet.catena("run", "web1", "test.ping", f"--output-file={file}", "--out-file-append")
    assert file.read_text() == f"{first}web1:\n    True\n"


def test_static_prints_sorted_returns_at_the_end_and_summary_counts_them(fleet: Fleet) -> None:
    done = fleet.catena("run", "*", "test.ping", "--static", "--summary", "--out", "txt")
    assert done.stdout.splitlines() == ["db1: true", "web1: true", "web2: true"]
    assert "# of minions targeted: 3" in done.stderr
    assert "# of minions that did not return: 0" in done.stderr


def test_subset_limits_the_number_of_minions(fleet: Fleet) -> None:
    done = fleet.catena("run", "*", "test.ping", "--subset", "2", "--out", "json")
    assert len(json.loads(done.stdout)) == 2


def test_failhard_ends_a_batch(fleet: Fleet) -> None:
    done = fleet.catena("run", "*", "cmd.run", "false", "-b", "1", "--failhard", check=False)
    assert done.returncode == 1
    assert done.stderr.count("an earlier minion failed") == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-R", "web[1-3]", "test.ping"], "range expressions are not supported"),
        (["--batch-wait", "3", "web1", "test.ping"], "need --batch"),
        (["--failhard", "web1", "test.ping"], "need --batch"),
        (["web1", "cmd.run", "FOO=bar env"], "was read as a keyword"),
        (["web1", "cmd.run", "ls", "FOO=bar env"], "was read as a keyword"),
    ],
)
def test_invalid_option_is_refused_with_the_reason(
    fleet: Fleet, words: list[str], text: str
) -> None:
    done = fleet.catena("run", *words, check=False)
    assert done.returncode != 0
    assert text in done.stdout + done.stderr


def test_pillar_pcre_targets_by_pillar(fleet: Fleet) -> None:
    done = fleet.catena("run", "-J", "colour:^(blue|green)$", "test.ping", "--out", "json")
    assert set(json.loads(done.stdout)) == {"web1", "web2"}


def test_log_level_debug_shows_the_requests_to_the_master(fleet: Fleet) -> None:
    done = fleet.catena("run", "web1", "test.ping", "-l", "debug")
    assert "asking the master: job.run" in done.stderr
    assert done.stdout == "web1:\n    True\n"
