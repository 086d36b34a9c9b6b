"""A line per host, redrawn in place on a terminal and nowhere else."""

from __future__ import annotations

import io

from catena.cli.output.live import LiveLines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_nothing() -> None:
    stream = io.StringIO()
    live = LiveLines(stream)
    live.say("web1", "connect")
    live.end("web1")
    live.hide()
    assert stream.getvalue() == ""


def test_lines_are_redrawn_and_taken_away() -> None:
    stream = Terminal()
    live = LiveLines(stream)
    live.say("web1", "connect")
    live.say("web2", "connect")
    live.say("web1", "run: uptime")
    assert stream.getvalue().endswith("\x1b[2F\x1b[Jweb2: connect\nweb1: run: uptime\n")
    live.end("web2")
    live.hide()
    assert stream.getvalue().endswith("\x1b[2F\x1b[Jweb1: run: uptime\n\x1b[1F\x1b[J")


def test_what_a_host_says_does_not_reach_the_terminal_as_it_is() -> None:
    stream = Terminal()
    LiveLines(stream).say("web1", "\x1b[2J\nowned")
    assert "\x1b[2J" not in stream.getvalue()
