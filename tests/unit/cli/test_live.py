"""A line per host, redrawn in place on a terminal and nowhere else."""

from __future__ import annotations

import io

from catena.cli.output.live import LiveLines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_lines_are_not_written_to_a_file() -> None:
    stream = io.StringIO()
    live = LiveLines(stream)
    live.say("web1", "connect")
    live.end("web1")
    live.hide()
    assert stream.getvalue() == ""


def test_live_lines_are_redrawn_and_removed() -> None:
    stream = Terminal()
    live = LiveLines(stream)
    live.say("web1", "connect")
    live.say("web2", "connect")
    live.say("web1", "run: uptime")
    assert stream.getvalue().endswith("\x1b[2F\x1b[Jweb2: connect\nweb1: run: uptime\n")
    live.end("web2")
    live.hide()
    assert stream.getvalue().endswith("\x1b[2F\x1b[Jweb1: run: uptime\n\x1b[1F\x1b[J")


def test_live_lines_escape_control_characters_of_a_host() -> None:
    stream = Terminal()
    LiveLines(stream).say("web1", "\x1b[2J\nowned")
    assert "\x1b[2J" not in stream.getvalue()


def test_live_lines_begin_with_the_count_of_finished_hosts() -> None:
    stream = Terminal()
    live = LiveLines(stream, total=30)
    for number in range(22):
        live.say(f"web{number}", "run")
    last = stream.getvalue().rpartition("\x1b[J")[2].splitlines()
    assert last[0] == "0 of 30 hosts done, 0:00, 2 more in progress"
    assert (len(last), last[-1]) == (21, "web21: run")
    for number in range(5):
        live.end(f"web{number}")
    assert "\n5 of 30 hosts done, 0:00\n" in stream.getvalue().replace("\x1b[J", "\n")
    live.hide()
    assert stream.getvalue().endswith("\x1b[18F\x1b[J")
