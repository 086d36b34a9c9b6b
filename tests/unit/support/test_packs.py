from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import packs

TEXT = "ä\u2028\x85\r\n\x0bz"
CASE = {"case.yaml": b"a: 1\n", "setup/raw": b"\xff\0", "states/x.sls": TEXT.encode()}


def test_unpacked_case_packs_to_the_same_bytes(tmp_path: Path) -> None:
    family, folder = tmp_path / "family", tmp_path / "folder"
    packs.write(family / "cmd.jsonl", {"two": CASE, "one": {"case.yaml": b""}})
    before = (family / "cmd.jsonl").read_bytes()
    assert packs.names(family) == ["cmd/one", "cmd/two"]
    packs.unpack(family, folder)
    assert (folder / "cmd/two/setup/raw").read_bytes() == b"\xff\0"
    packs.pack_folder(folder, tmp_path / "again")
    assert (tmp_path / "again/cmd.jsonl").read_bytes() == before


def test_packing_one_case_keeps_the_others(tmp_path: Path) -> None:
    family, folder = tmp_path / "family", tmp_path / "folder"
    packs.write(family / "cmd.jsonl", {"one": CASE, "two": CASE})
    assert packs.main(["unpack", str(family), str(folder), "cmd/two"]) == 0
    (folder / "cmd/two/case.yaml").write_text("b: 2\n")
    assert packs.main(["pack", str(folder), str(family)]) == 0
    assert packs.files(family, "cmd/one") == CASE
    assert packs.files(family, "cmd/two") == {**CASE, "case.yaml": b"b: 2\n"}


def test_show_prints_every_file_of_a_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packs.write(tmp_path / "cmd.jsonl", {"one": CASE})
    assert packs.main(["show", str(tmp_path), "cmd/one"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.split("\n") if line.startswith("── ")] == [
        f"── cmd/one/{path}" for path in sorted(CASE)
    ]
    assert "\\xff" in shown
