"""Damaged custom files and compiled templates are not run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from catena.core.digest import hex_of
from catena.runtime import damage
from catena.runtime.custom_code import CheckedLoader, CustomFileDamagedError, write_sums

SOURCE = b"def answer():\n    return 42\n"


@pytest.fixture
def kind(tmp_path: Path) -> Path:
    folder = tmp_path / "extmods" / "modules"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_bytes(SOURCE)
    write_sums(folder, {"mine.py": SOURCE})
    return folder


def loaded(path: Path) -> ModuleType:
    loader = CheckedLoader("mine", str(path))
    spec = importlib.util.spec_from_file_location("mine", path, loader=loader)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(kind: Path) -> Path:
    (found,) = (kind / "__pycache__").iterdir()
    return found


def test_synced_file_is_loaded(kind: Path, tmp_path: Path) -> None:
    assert loaded(kind / "mine.py").answer() == 42
    assert loaded(kind / "mine.py").answer() == 42
    assert damage.known(tmp_path) == []


def test_changed_file_is_not_run(kind: Path, tmp_path: Path) -> None:
    (kind / "mine.py").write_bytes(SOURCE.replace(b"42", b"43"))
    with pytest.raises(CustomFileDamagedError, match=r"saltutil\.sync_all"):
        loaded(kind / "mine.py")
    (found,) = damage.known(tmp_path)
    assert found.path == str(kind / "mine.py")


def test_changed_file_is_restored_from_the_cache(kind: Path, tmp_path: Path) -> None:
    digest = hex_of(SOURCE)
    copy = tmp_path / "files" / "objects" / digest[:2] / digest
    copy.parent.mkdir(parents=True)
    copy.write_bytes(SOURCE)
    (kind / "mine.py").write_bytes(b"\0" * len(SOURCE))
    assert loaded(kind / "mine.py").answer() == 42
    assert (kind / "mine.py").read_bytes() == SOURCE
    assert len(damage.known(tmp_path)) == 1


def test_damaged_compiled_code_is_compiled_anew(
    kind: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    loaded(kind / "mine.py")
    whole = compiled(kind).read_bytes()
    for data in (b"", whole[:-1], whole[: len(whole) // 2], whole.replace(b"\x2a", b"\x2b")):
        compiled(kind).write_bytes(data)
        assert loaded(kind / "mine.py").answer() == 42
        assert compiled(kind).read_bytes() == whole


def test_file_without_a_recorded_checksum_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(SOURCE)
    assert loaded(tmp_path / "mine.py").answer() == 42


@pytest.mark.parametrize("data", [b"", b"[]", b"\0\0", b"{"])
def test_damaged_checksum_list_blocks_no_file(kind: Path, data: bytes) -> None:
    (kind / ".sums").write_bytes(data)
    assert loaded(kind / "mine.py").answer() == 42
