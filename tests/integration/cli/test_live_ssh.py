"""The live view of `catena ssh` on a real pseudo-terminal, with a real sshd."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.ssh_server import USER, SshServer
from tests.support.terminal import PATIENCE_SECONDS, Terminal, frames, plain

#: Each host waits in its second state, until the folder of the test is gone at the latest, and
#: fails in its third.
STATES = """\
first: {{test.nop: []}}
held:
  cmd.run:
    - name: while test -d {folder} && ! test -e {gate}; do sleep 0.1; done
the last:
  cmd.run:
    - name: exit 5
"""


class Site:
    """The configuration of a master with hosts a, b and c."""

    def __init__(self, server: SshServer, folder: Path) -> None:
        self.etc, self.gate = folder / "etc", folder / "gate"
        self.home = server.home
        states = folder / "states"
        states.mkdir()
        self.etc.mkdir()
        (states / "held.sls").write_text(STATES.format(folder=folder, gate=self.gate))
        (self.etc / "master").write_text(
            f"ssh_user: {USER}\nssh_timeout: 20\nssh_max_procs: 2\nroot_dir: {folder}\n"
            f"ssh_known_hosts_file: {server.known_hosts}\nfile_roots: {{base: [{states}]}}\n"
        )
        (self.etc / "roster").write_text(
            "".join(
                f"{name}: {{host: 127.0.0.1, port: {server.ports[name]}, "
                f"thin_dir: {server.folder}/thin-{name}}}\n"
                for name in ("a", "b", "c")
            )
        )


@pytest.fixture
def site() -> Iterator[Site]:
    run = '#!/bin/sh\nexec /bin/sh -c "$1"\n'
    with SshServer(dict.fromkeys("abc", run)) as server:
        with tempfile.TemporaryDirectory(prefix="cs") as folder:
            yield Site(server, Path(folder))


@pytest.fixture
def terminal(site: Site) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def opener(*words: str, term: str = "xterm") -> Terminal:
        variables = {"HOME": str(site.home), "SSH_AUTH_SOCK": ""}
        opened.append(Terminal(site.etc, 100, 24, *words, term=term, **variables))
        return opened[-1]

    yield opener
    site.gate.touch()
    for one in opened:
        one.close()


def test_board_shows_the_steps_of_hosts_and_the_queued_hosts(
    site: Site, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("ssh", "*", "state.apply", "held")
    rest = ("2 running", "1 waiting", "queued: 2 hosts at a time")
    view.until(
        lambda text: any(
            frame.count("run: 1/3") == 2 and all(one in frame for one in rest)
            for frame in frames(text)
        )
    )
    site.gate.touch()
    view.until(lambda text: "the last (cmd.run): " in plain(text))
    assert view.rest() == 1
    shown = plain(view.seen.decode())
    assert "failed: a (code 2), b (code 2), c (code 2)" in shown
    assert view.seen.rindex(b"\x1b[?25h") > view.seen.rindex(b"\x1b[?25l")


def test_raw_command_that_fails_is_shown_by_code_and_last_line(
    site: Site, terminal: Callable[..., Terminal]
) -> None:
    text = f"echo no such disk >&2; test -e {site.gate} || {{ touch {site.gate}; exit 4; }}; "
    text += f"while test -d {site.etc} && ! test -e {site.gate}2; do sleep 0.1; done"
    view = terminal("ssh", "*", "--max-procs", "1", "-r", text)
    view.frame("1 failed", "exit code 4: no such disk")
    Path(f"{site.gate}2").touch()
    assert view.rest() == 1


def test_ctrl_c_leaves_the_terminal_as_it_was(
    site: Site, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("ssh", "*", "state.apply", "held")
    view.until(lambda text: "run: 1/3" in plain(text))
    os.kill(view.process.pid, 2)
    assert view.rest() == 130
    assert b"catena ssh-run collect" in view.seen
    assert view.seen.rindex(b"\x1b[?25h") > view.seen.rindex(b"\x1b[?25l")


def test_terminal_that_can_not_redraw_gets_a_line_a_host(
    site: Site, terminal: Callable[..., Terminal]
) -> None:
    site.gate.touch()
    view = terminal("ssh", "*", "state.apply", "held", term="dumb")
    view.until(lambda text: "of 3 hosts done" in text)
    assert view.rest() == 1
    assert b"\x1b[?25l" not in view.seen


def test_pipe_imports_nothing_of_rich(site: Site) -> None:
    words = ["-X", "importtime", "-m", "catena", "-c", str(site.etc), "ssh", "*", "-r", "echo on"]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "HOME": str(site.home), "SSH_AUTH_SOCK": ""},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("on\n") == 3
    assert "| rich" not in " ".join(done.stderr.split()) and "\x1b" not in done.stdout
