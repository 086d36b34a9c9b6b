"""The identity of the host that a clock reading names."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.clock import read_host_id


@pytest.mark.parametrize("useless", ["", "\n", "uninitialized\n", "x" * 65, "\xff"])
def test_host_id_is_read_from_the_first_file_that_contains_one(
    tmp_path: Path, useless: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    paths = (str(tmp_path / "missing"), str(first), str(second))
    first.write_text(useless)
    assert read_host_id(paths) == ""
    second.write_text("0123abcd\n")
    assert read_host_id(paths) == "0123abcd"
