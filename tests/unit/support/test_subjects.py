from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import subjects


@pytest.mark.parametrize("subject", ["Keep it", "Process a job", "Bring it back", "Add"])
def test_imperative_subject_is_accepted(subject: str) -> None:
    assert list(subjects.mistakes(subject)) == []


@pytest.mark.parametrize(
    ("subject", "what"),
    [
        ("Keep it.", "full stop"),
        ("keep it", "capital"),
        ("Kept " + "x" * 70, "longer than 72"),
        ("Added a job", "imperative"),
        ("Adding a job", "imperative"),
        ("Keeps a job", "imperative"),
        ("A job is kept", "imperative"),
        ("fixup! Keep it", "capital"),
    ],
)
def test_mistake_of_a_subject_is_named(subject: str, what: str) -> None:
    assert what in " ".join(subjects.mistakes(subject))


def test_only_commits_made_after_the_check_are_read(tmp_path: Path) -> None:
    def commit(file: str, subject: str) -> None:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(subject)
        names = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
        for words in (["add", "-A"], [*names, "commit", "-q", "-m", subject]):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True, timeout=60)

    assert subjects.subjects(tmp_path) is None
    assert subjects.main(tmp_path) == 0
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=60)
    commit("old", "older work.")
    assert subjects.subjects(tmp_path) is None
    commit("tests/support/subjects.py", "the check itself.")
    assert subjects.subjects(tmp_path) == []
    commit("new", "newer work.")
    assert subjects.subjects(tmp_path) == ["newer work."]
    assert subjects.main(tmp_path) == 1
