from __future__ import annotations

from typing import Any

from catena.cli.output.printed import PrintedLines


def output(text: str, stream: str = "stdout", missed: int = 0) -> dict[str, Any]:
    item = {"type": "output", "minion": "m1", "seq": 1, "stream": stream}
    return {**item, "text": text, "missed": missed}


def test_lines_are_shown_whole_and_the_begun_one_with_the_return() -> None:
    lines = PrintedLines()
    assert lines.feed(output("one\ntw")) == ["m1: one"]
    assert lines.feed(output("err", "stderr")) == []
    assert lines.feed(output("o\nthree")) == ["m1: two"]
    assert lines.feed({"type": "return", "minion": "m2"}) == []
    assert lines.feed({"type": "return", "minion": "m1"}) == ["m1: err", "m1: three"]


def test_gap_and_limit_are_named() -> None:
    lines = PrintedLines()
    lines.feed(output("begun"))
    assert lines.feed(output("on\n", missed=12)) == [
        "m1: begun",
        "m1: (12 bytes are missing)",
        "m1: on",
    ]
    assert lines.feed(output("", stream="")) == ["m1: (more output: see the return)"]


def test_control_characters_of_a_minion_do_not_reach_the_terminal() -> None:
    (line,) = PrintedLines().feed(output("\x1b[2Jx\n"))
    assert "\x1b" not in line
