from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.errors import ConfigError
from catena.renderers.config_files import read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "minion.d").mkdir()
    return tmp_path


def test_files_of_the_folder_come_after_the_main_file_in_the_order_of_their_names(
    folder: Path,
) -> None:
    (folder / "minion").write_text("id: main\ngrains: {a: 1, b: 1}\nonly: here\n")
    (folder / "minion.d" / "b.conf").write_text("id: b\ngrains: {b: 2}\n")
    (folder / "minion.d" / "a.conf").write_text("id: a\nlist: [1]\n")
    assert read(folder / "minion") == {
        "id": "b",
        "grains": {"a": 1, "b": 2},
        "only": "here",
        "list": [1],
    }


@pytest.mark.parametrize("name", ["_mgractionchains.conf", ".x.conf", "x.conf.running", "x.txt"])
def test_state_and_half_written_files_are_no_configuration(folder: Path, name: str) -> None:
    (folder / "minion").write_text("id: main\n")
    (folder / "minion.d" / name).write_text("id: [not\n")
    assert read(folder / "minion") == {"id": "main"}


def test_empty_file_is_an_empty_configuration(tmp_path: Path) -> None:
    assert read(tmp_path / "minion") == {}
    (tmp_path / "minion").write_text("# only a comment\n")
    assert read(tmp_path / "minion") == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: [\n", "minion:2"),
        (b"a: 1\na: 2\n", "minion:2"),
        (b"- a\n", "expected a mapping, got list"),
        (b"a: \xff\n", "not UTF-8: byte 0xff at position 3"),
        (b"#" * (4 * 1024 * 1024 + 1), "larger than"),
    ],
)
def test_wrong_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "minion").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read(tmp_path / "minion")


def test_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "minion").mkdir()
    with pytest.raises(ConfigError):
        read(tmp_path / "minion")
