from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from catena.renderers.jinja_lean import Bytecode


def rendered(folder: Path) -> str:
    loader = jinja2.DictLoader({"a": "{{ 6 * 7 }} times"})
    made = jinja2.Environment(loader=loader, bytecode_cache=Bytecode(str(folder)))
    return made.get_template("a").render()


def test_compiled_template_is_kept(tmp_path: Path) -> None:
    assert rendered(tmp_path) == "42 times"
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    assert rendered(tmp_path) == "42 times"
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("place", [0, 3, 4, 30, -1])
def test_damaged_compiled_template_is_compiled_again(tmp_path: Path, place: int) -> None:
    rendered(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    data = bytearray(whole)
    data[place] ^= 1
    for damaged in (bytes(data), b"", whole[:20], b"\0" * len(whole)):
        file.write_bytes(damaged)
        assert rendered(tmp_path) == "42 times"
        assert file.read_bytes() == whole
