"""The view of hosts while processes are forked."""

from __future__ import annotations

import io
import sys

import pytest

from catena.cli.ssh_view import HostView


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_ssh_view_restores_the_streams_while_a_process_is_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Tty()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    view = HostView("state.apply", ["a"], 1)
    with view.shown():
        assert sys.stdout is not out
        with view.still():
            assert sys.stdout is out
            written = len(out.getvalue())
        assert sys.stdout is not out
        view.say("a", "run: 1/2")
        view.end("a", "")
    assert sys.stdout is out
    assert "state.apply" in out.getvalue()[written:]


def test_ssh_view_writes_nothing_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    view = HostView("state.apply", ["a"], 1)
    with view.shown(), view.still():
        view.say("a", "run: 1/2")
        view.end("a", "")
    assert (out.getvalue(), err.getvalue()) == ("", "")
