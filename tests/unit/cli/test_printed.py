from __future__ import annotations

from typing import Any

from catena.cli.output.printed import PrintedLines


def output(text: str, stream: str = "stdout", missed: int = 0) -> dict[str, Any]:
    item = {"type": "output", "minion": "m1", "seq": 1, "stream": stream}
    return {**item, "text": text, "missed": missed}


def test_output_is_shown_in_whole_lines_and_the_rest_with_the_return() -> None:
    lines = PrintedLines()
    assert lines.feed(output("one\ntw")) == ["m1: one"]
    assert lines.feed(output("err", "stderr")) == []
    assert lines.feed(output("o\nthree")) == ["m1: two"]
    assert lines.feed({"type": "return", "minion": "m2"}) == []
    assert lines.feed({"type": "return", "minion": "m1"}) == ["m1: err", "m1: three"]


def test_gap_and_limit_of_the_output_are_shown() -> None:
    lines = PrintedLines()
    lines.feed(output("begun"))
    assert lines.feed(output("on\n", missed=12)) == [
        "m1: begun",
        "m1: (12 bytes are missing)",
        "m1: on",
    ]
    assert lines.feed(output("", stream="")) == ["m1: (more output: see the return)"]


def test_printed_lines_escape_control_characters_of_a_minion() -> None:
    (line,) = PrintedLines().feed(output("\x1b[2Jx\n"))
    assert "\x1b" not in line
