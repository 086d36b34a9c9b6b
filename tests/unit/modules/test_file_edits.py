from __future__ import annotations

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.file.blocks import Block, with_block
from catena.modules.file.edits import (
    Replacement,
    commented,
    flags_of,
    holds,
    replaced,
    uncommented,
)
from catena.modules.file.keyvalues import KeyValues, with_values
from catena.modules.file.lines import LineEdit, edited

FIVE = "one\ntwo\nthree\nfour\nfive\n"


def test_replace_works_line_by_line_and_with_groups() -> None:
    assert replaced("port=80\nname=abc\n", Replacement(r"^port=\d+", "port=8080")) == (
        "port=8080\nname=abc\n"
    )
    assert replaced("name=abc\n", Replacement(r"(name)=(\w+)", r"\1=new-\2")) == "name=new-abc\n"


def test_replace_counts() -> None:
    assert replaced("x x x x\n", Replacement("x", "y", count=2)) == "y y x x\n"


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        (Replacement("^e=.*", "e=1", append_if_not_found=True), "a\ne=1\n"),
        (Replacement("^e=.*", "e=1", prepend_if_not_found=True), "e=1\na"),
    ],
)
def test_replace_appends_a_missing_text_once(wanted: Replacement, result: str) -> None:
    assert replaced("a", wanted) == result
    assert replaced(result, wanted) == result


def test_backslashes_of_a_literal_replacement_stay() -> None:
    wanted = Replacement("a", r"\1\n", backslash_literal=True)
    assert replaced("a", wanted) == r"\1\n"


def test_malformed_expression_is_reported() -> None:
    with pytest.raises(CommandExecutionError):
        replaced("a", Replacement("(", "b"))


def test_flags_have_names() -> None:
    assert flags_of(["MULTILINE", "ignorecase"]) == 10
    with pytest.raises(UsageError):
        flags_of("template_everything")


def test_block_is_replaced_between_its_markers() -> None:
    block = Block("# b", "# e", "new 1\nnew 2\n")
    assert with_block("top\n# b\nold\n# e\nend\n", block) == "top\n# b\nnew 1\nnew 2\n# e\nend\n"


def test_block_is_added_where_asked_for() -> None:
    append = Block("# b", "# e", "x", append_if_not_found=True)
    prepend = Block("# b", "# e", "x", prepend_if_not_found=True)
    after = Block("# b", "# e", "x", insert_after_match="^o")
    assert with_block("only", append) == "only\n# b\nx\n# e\n"
    assert with_block("only\n", prepend) == "# b\nx\n# e\nonly\n"
    assert with_block("only\nz\n", after) == "only\n# b\nx\n# e\nz\n"
    assert with_block("only\n# b\nx\n# e\n", append) == "only\n# b\nx\n# e\n"


@pytest.mark.parametrize("text", ["only\n", "# b\nnever ended\n"])
def test_block_without_markers_is_refused(text: str) -> None:
    with pytest.raises(CommandExecutionError):
        with_block(text, Block("# b", "# e", "x"))


def test_comments_come_and_go() -> None:
    assert commented("alpha=1\nbeta=2\n", "^alpha", "#") == "#alpha=1\nbeta=2\n"
    assert uncommented("#alpha=1\n  # beta=2\n", "^beta", "#") == "#alpha=1\n  beta=2\n"


def test_lines_with_other_spacing_are_equal_unless_configured() -> None:
    assert holds("a   b\nc\n", "a b")
    assert not holds("a   b\nc\n", "a b", ignore_whitespace=False)
    assert not holds("a b c\n", "a b")


def test_keys_are_set_where_they_stand() -> None:
    wanted = KeyValues((("Port", "22"), ("X11", "no")), separator=" ", uncomment="#")
    made = with_values("#Port 2222\nX11 no\nPort 80\n", wanted)
    assert "".join(made.lines) == "Port 22\nX11 no\n"
    assert made.diff == ["- #Port 2222\n", "+ Port 22\n", "- Port 80\n"]
    assert with_values("other 1\n", wanted).changed == 0


def test_missing_key_is_added_where_asked_for() -> None:
    last = with_values("a=1", KeyValues((("b", "2"),), append_if_not_found=True))
    first = with_values("a=1\n", KeyValues((("b", "2"),), prepend_if_not_found=True))
    assert last.lines == ["a=1\n", "b=2\n"]
    assert first.lines == ["b=2\n", "a=1\n"]


def test_pruning_keeps_only_managed_keys() -> None:
    made = with_values("a=1\nb=2\n", KeyValues((("b", "2"),), prune=True))
    assert (made.lines, made.deleted) == (["b=2\n"], 1)


@pytest.mark.parametrize(
    ("edit", "result"),
    [
        (
            LineEdit("ensured", mode="ensure", after="^two"),
            FIVE.replace("two\n", "two\nensured\n"),
        ),
        (LineEdit("THREE", mode="replace", match="^three"), FIVE.replace("three", "THREE")),
        (LineEdit(mode="delete", match="^four"), FIVE.replace("four\n", "")),
        (LineEdit("start", mode="insert", location="start"), "start\n" + FIVE),
        (LineEdit("finish", mode="insert", location="end"), FIVE + "\nfinish"),
        (LineEdit("b5", mode="ensure", before="^five"), FIVE.replace("five", "b5\nfive")),
    ],
)
def test_line_is_edited(edit: LineEdit, result: str) -> None:
    assert edited(FIVE, edit) == result


def test_ensured_line_exists_once() -> None:
    edit = LineEdit("ensured", mode="ensure", after="^two")
    assert edited(edited(FIVE, edit), edit) == edited(FIVE, edit)


@pytest.mark.parametrize(
    "edit",
    [
        LineEdit("x"),
        LineEdit("x", mode="guess"),
        LineEdit("x", mode="insert"),
        LineEdit("x", mode="ensure"),
        LineEdit("x", mode="ensure", after="nowhere"),
        LineEdit("x", mode="insert", after="e"),
    ],
)
def test_edit_without_one_place_is_refused(edit: LineEdit) -> None:
    with pytest.raises(CommandExecutionError):
        edited(FIVE, edit)
