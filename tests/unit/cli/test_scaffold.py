"""`catena scaffold`: what it writes passes its own tests, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.cli import commands

KINDS = ("state", "module", "grain", "formula")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["greeting", "my_web2"])
def test_written_files_pass_their_tests(
    kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tree"
    assert commands.run(["scaffold", kind, name, "--folder", str(folder)]) == 0
    paths = capsys.readouterr().out.splitlines()
    assert all(Path(path).is_file() for path in paths)
    assert not [path for path in paths if "NAME" in path or "NAME" in Path(path).read_text()]
    assert commands.run(["test", str(folder)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_existing_file_is_not_overwritten(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["scaffold", kind, "greeting", "--folder", str(tmp_path)]
    assert commands.run(arguments) == 0
    first, *others = map(Path, capsys.readouterr().out.splitlines())
    first.write_text("mine")
    others[-1].unlink()
    assert commands.run(arguments) == 2
    assert f"{first}" in capsys.readouterr().err
    assert first.read_text() == "mine"
    assert not others[-1].exists()


def test_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "_modules").mkdir()
    (tmp_path / "_modules" / "greeting.py").symlink_to(tmp_path / "elsewhere")
    assert commands.run(["scaffold", "module", "greeting", "--folder", str(tmp_path)]) == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["../x", "a b", "A", "class", "1a", "", "a" * 65, "a.b", "ä"])
def test_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    assert commands.run(["scaffold", "grain", name, "--folder", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "name"), [("state", "file"), ("module", "state")])
def test_name_of_a_built_in_module_is_refused(
    kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run(["scaffold", kind, name, "--folder", str(tmp_path)]) == 2
    assert f"{name} is a built-in" in capsys.readouterr().err
