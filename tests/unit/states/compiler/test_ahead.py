"""States in a row that are prepared together before they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catena.core.plugins import Plugin, Registry, StateMark
from catena.core.types import StateResult
from catena.states.compiler import api
from catena.states.compiler.ahead import LEAST


class Hooks:
    """Records that states are done for good."""

    def before(self, low: Any) -> None:
        """Let it run."""

    def perform(self, low: Any, work: Any) -> Any:
        return work()

    def after(self, low: Any, row: Any) -> None:
        """Record it."""

    def cancelled(self) -> bool:
        return False


def _world(world: Any, text: str, told: list[str]) -> Any:
    """Return a world with own.work, which is shown what stands in a row, and own.other."""

    @contextmanager
    def ahead(context: Any, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[None]:
        told.append(f"begin {len(calls)}")
        yield
        told.append("end")

    def work(context: Any, /, name: str, value: int = 0) -> StateResult:
        told.append(name)
        return StateResult(name != "bad", {}, "")

    made = world(text)
    plugins = {
        "own.work": Plugin("own.work", work, StateMark(ahead=ahead)),
        "own.other": Plugin("own.other", work, StateMark()),
    }
    late = lambda prefix: plugins if prefix == "own" else None  # noqa: E731
    made.context = made.context.with_(states=Registry("state", {}, StateMark, late))
    return made


def _run(made: Any, hooks: Any = None) -> Any:
    compiled = api.compile_sls(made.context, "t")
    assert compiled.errors == ()
    return api.run(made.context, compiled.low, hooks)


def _works(count: int, first: int = 0) -> str:
    return "".join(f"n{number}: own.work\n" for number in range(first, first + count))


NAMES = [f"n{number}" for number in range(LEAST)]


def test_sequence_is_prepared_once_and_ends_before_another_function(world: Any) -> None:
    told: list[str] = []
    _run(_world(world, _works(LEAST) + "x: own.other\n" + _works(LEAST, LEAST), told))
    second = [f"n{number}" for number in range(LEAST, 2 * LEAST)]
    begin = f"begin {LEAST}"
    assert told == [begin, *NAMES, "end", "x", begin, *second, "end"]


def test_short_sequence_is_not_prepared(world: Any) -> None:
    told: list[str] = []
    _run(_world(world, _works(LEAST - 1), told))
    assert told == NAMES[:-1]


def test_work_is_not_deferred_in_a_journalled_run(world: Any) -> None:
    told: list[str] = []
    _run(_world(world, _works(LEAST), told), Hooks())
    assert told == NAMES


def test_mode_prepares_nothing_ahead(world: Any) -> None:
    told: list[str] = []
    made = _world(world, _works(LEAST), told)
    made.context = made.context.with_(test=True)
    _run(made)
    assert told == NAMES


@pytest.mark.parametrize("keyword", ["unless: 'true'", "parallel: true", "retry: {attempts: 2}"])
def test_state_with_other_keywords_ends_a_sequence(world: Any, keyword: str) -> None:
    told: list[str] = []
    text = _works(LEAST) + f"m: {{own.work: [{{{keyword}}}]}}\n" + _works(1, LEAST)
    _run(_world(world, text, told))
    assert told[: LEAST + 2] == [f"begin {LEAST}", *NAMES, "end"]


def test_sequence_ends_with_the_run(world: Any) -> None:
    told: list[str] = []
    text = "bad: {own.work: [{failhard: true}]}\n" + _works(LEAST)
    _run(_world(world, text, told))
    assert told == [f"begin {LEAST + 1}", "bad", "end"]


# -- file.managed -------------------------------------------------------------------------


def _files(folder: Path, count: int) -> str:
    return "".join(
        f"{folder}/f{number}: {{file.managed: [{{contents: line {number}}}, {{mode: '0640'}}]}}\n"
        for number in range(count)
    )


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return, for each fsync, whether it was one of a folder."""
    calls: list[bool] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        calls.append(Path(f"/proc/self/fd/{handle}").resolve().is_dir())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return calls


def _file_world(world: Any, text: str) -> Any:
    made = world(text)
    index = {"file": "catena.states.file", "test": "catena.states.test"}
    made.context = made.context.with_(states=Registry("state", index, StateMark))
    return made


def test_new_files_wait_for_the_disk_together(
    world: Any, tmp_path: Path, synced: list[bool]
) -> None:
    rows = _run(_file_world(world, _files(tmp_path, 20)))
    assert {row["result"] for row in rows.values()} == {True}
    assert {str(row["changes"]) for row in rows.values()} == {
        "{'diff': 'New file', 'mode': '0640'}"
    }
    for number in range(20):
        path = tmp_path / f"f{number}"
        assert path.read_text() == f"line {number}\n"
        assert path.stat().st_mode & 0o777 == 0o640
    assert synced.count(True) == 1
    assert len(synced) <= 21


def test_each_file_is_durable_before_its_end_is_recorded(
    world: Any, tmp_path: Path, synced: list[bool]
) -> None:
    _run(_file_world(world, _files(tmp_path, 10)), Hooks())
    assert (synced.count(True), synced.count(False)) == (10, 10)


def test_file_with_unknown_content_is_written_without_staging(world: Any, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old\n")
    text = (
        _files(tmp_path, 10)
        + f"{tmp_path}/there: {{file.managed: [{{contents: new}}]}}\n"
        + f"{tmp_path}/sub/f: {{file.managed: [{{contents: x}}, {{makedirs: true}}]}}\n"
        + f"{tmp_path}/empty: {{file.managed: [{{contents: ''}}, {{allow_empty: false}}]}}\n"
        + f"twice: {{file.managed: [{{name: {tmp_path}/f0}}, {{contents: again}}]}}\n"
        + f"{tmp_path}/odd: {{file.managed: [{{contents: x}}, {{mode: '9'}}]}}\n"
        + "relative: {file.managed: [{contents: x}]}\n"
    )
    rows = {row["__id__"]: row for row in _run(_file_world(world, text)).values()}
    assert (tmp_path / "there").read_text() == "new\n"
    assert (tmp_path / "sub/f").read_text() == "x\n"
    assert (tmp_path / "f0").read_text() == "again\n"
    assert "empty contents" in rows[f"{tmp_path}/empty"]["comment"]
    assert "octal" in rows[f"{tmp_path}/odd"]["comment"]
    assert "absolute" in rows["relative"]["comment"]
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name[0] == ".") == []
