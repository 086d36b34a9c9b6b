"""Which rows a run has, and how its tools take turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import runner
from bench.__main__ import main
from bench.areas import AREAS, rows_of
from bench.errors import BenchError, NotHereError
from bench.lab import Lab
from bench.row import TOOLS, Measure, Row, Sample
from bench.runner import chosen, measure
from bench.tools import COMMANDS, VARIABLES, Tools, find

HERE = Tools({"catena": Path("/"), "salt": Path("/")})


def every() -> list[Row]:
    return [row for area in AREAS for row in rows_of(area)]


def test_every_row_has_a_name_of_its_own_and_measures_catena() -> None:
    names = [row.name for row in every()]
    assert sorted(names) == sorted(set(names))
    for row in every():
        assert "catena" in row.tools, row.name
        assert set(row.tools) <= set(TOOLS), row.name
        assert set(row.fewer) <= set(row.tools), row.name


def test_every_module_of_rows_is_an_area() -> None:
    folder = Path(__file__).parents[3] / "bench/rows"
    found = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert found == set(AREAS)


def test_rows_are_chosen_by_patterns() -> None:
    rows = [Row(name, name, "s", {}) for name in ("ping-1", "ping-50", "version")]
    assert chosen(rows, ["ping-*"]) == rows[:2]
    assert chosen(rows, ["version", "ping-1"]) == [rows[0], rows[2]]
    assert chosen(rows, []) == rows
    assert chosen(rows, ["none"]) == []


def test_pattern_without_rows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--rows", "nothing"])
    assert ended.value.code == 2
    assert "no row has such a name: nothing" in capsys.readouterr().err


def test_tools_take_turns() -> None:
    calls: list[str] = []

    def of(tool: str) -> Measure:
        def found(_lab: Lab) -> Sample:
            calls.append(tool)
            return Sample(len(calls))

        return found

    tools = {"salt": of("salt"), "catena": of("catena"), "floor": of("floor")}
    row = Row("r", "r", "s", tools, repeats=3, quick=2, fewer={"salt": 1, "floor": 0})
    with Lab(HERE) as lab:
        outcome = measure(row, lab)
    assert calls == ["catena", "salt", "catena", "catena"]
    assert set(outcome.cells) == {"catena", "salt"}
    assert [s.value for s in outcome.cells["catena"].samples] == [1, 3, 4]
    assert [row.rounds(tool, quick=True) for tool in tools] == [0, 2, 0]


def test_slow_tool_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "ENOUGH_SECONDS", -1.0)
    row = Row("r", "r", "s", {"catena": lambda _lab: Sample(1.0)}, repeats=3)
    with Lab(HERE) as lab:
        assert len(measure(row, lab).cells["catena"].samples) == 1


@pytest.mark.parametrize(
    ("fault", "failed", "why"),
    [
        (NotHereError("salt has no such thing"), False, "salt has no such thing"),
        (BenchError("no answer"), True, "no answer"),
        (KeyError("x"), True, "KeyError('x')"),
    ],
)
def test_error_is_shown_in_its_cell_and_other_cells_are_measured(
    fault: Exception, failed: bool, why: str
) -> None:
    calls: list[str] = []

    def falls(_lab: Lab) -> Sample:
        calls.append("salt")
        raise fault

    tools = {"catena": lambda _lab: Sample(1.0), "salt": falls, "pyinfra": falls}
    with Lab(HERE) as lab:
        cells = measure(Row("r", "r", "s", tools, repeats=2), lab).cells
    assert len(cells["catena"].samples) == 2
    assert calls == ["salt"]
    assert (cells["salt"].why, cells["salt"].failed) == (why, failed)
    assert (cells["pyinfra"].why, cells["pyinfra"].failed) == ("pyinfra is not installed", False)


def test_quick_run_leaves_rows_out_visibly() -> None:
    row = Row("r", "r", "s", {"catena": lambda _lab: Sample(1.0)}, quick=0)
    with Lab(HERE, quick=True) as lab:
        outcome = measure(row, lab)
    assert outcome.cells == {} and outcome.verdict() == "not measured"


def test_tools_are_found_by_option_variable_and_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    for place in ("given/bin", "named", "path"):
        (tmp_path / place).mkdir(parents=True)
        for command in COMMANDS.values():
            (tmp_path / place / command).write_text(f"#!/{place}\n")
            (tmp_path / place / command).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv(VARIABLES["salt"], str(tmp_path / "named"))
    found = find({"ansible": str(tmp_path / "given")})
    assert found.folders["ansible"] == tmp_path / "given/bin"
    assert found.folders["salt"] == tmp_path / "named"
    assert found.folders["pyinfra"] == tmp_path / "path"
    assert not find({"ansible": "none"}).has("ansible")
    with pytest.raises(NotHereError, match="has no pyinfra"):
        find({"pyinfra": str(tmp_path)})


def test_fixture_is_started_once_and_ended_with_its_lab() -> None:
    said: list[str] = []

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name
            said.append(f"start {name}")

        def close(self) -> None:
            said.append(f"end {self.name}")

    def broken() -> Thing:
        said.append("try")
        raise BenchError("does not come up")

    with Lab(HERE) as lab:
        assert lab.keep("a", lambda: Thing("a")) is lab.keep("a", lambda: Thing("a"))
        lab.keep("b", lambda: Thing("b"))
        for _ in range(2):
            with pytest.raises(BenchError, match="does not come up"):
                lab.keep("c", broken)
        folder = lab.folder("x")
        assert folder.is_dir()
    assert said == ["start a", "start b", "try", "end b", "end a"]
    assert not folder.exists()
