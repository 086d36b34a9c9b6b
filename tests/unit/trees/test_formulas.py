"""The list of formulas is read, and a wrong key is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trees import formulas


def test_shipped_list_is_read() -> None:
    listed = formulas.read()
    assert len(listed) >= 30
    assert listed["vim"].sls == ("vim",)
    assert all(formula.sls for formula in listed.values())


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("vim: {piller: {a: 1}}\n")
    with pytest.raises(ValueError, match=r"vim: .*piller"):
        formulas.read(path)


def test_edit_of_an_example_has_to_find_something() -> None:
    formula = formulas.Formula("vim", ("vim",), edits={"(?m)^a: {}\n": ""})
    assert formula.edited("a: {}\nb: 1\n") == "b: 1\n"
    with pytest.raises(ValueError, match=r"vim: pillar\.example"):
        formula.edited("b: 1\n")
