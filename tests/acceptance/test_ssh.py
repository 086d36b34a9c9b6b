"""`catena ssh` and `catena ssh-key` against a real sshd."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fleet import free_ports

from catena.cli.commands import run
from catena.client.settings import master_settings
from catena.core.job import JobSpec
from catena.ssh.push.ledger import Begun, PushLedger
from tests.support.injections import INJECTIONS
from tests.support.ssh_server import USER, SshServer

CATENA = str(Path(sys.executable).with_name("catena"))
ROSTER = """\
{{% for name, port in {ports}.items() %}}
{{{{ name }}}}:
  host: 127.0.0.1
  port: {{{{ port }}}}
  thin_dir: {folder}/thin-{{{{ name }}}}
  minion_opts:
    grains: {{{{ {{"colour": name}} }}}}
{{% endfor %}}
"""
MASTER = """\
ssh_user: {user}
ssh_timeout: 20
file_roots: {{base: [{states}]}}
pillar_roots: {{base: [{states}/none]}}
"""
STATES = {
    "hello.sls": (
        "{{ grains['colour'] }}-of-{{ grains['id'] }}:\n  test.succeed_with_changes: []\n"
    ),
    "bad.sls": "no:\n  test.fail_without_changes: []\n",
}


class Done(NamedTuple):
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


class Cli:
    """The command line in this process, with a configuration and a home of the test's."""

    def __init__(
        self, server: SshServer, folder: Path, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.server = server
        self.folder = folder
        self._capture = capture
        self.folder.mkdir()
        states = folder / "states"
        states.mkdir()
        for name, text in STATES.items():
            (states / name).write_text(text)
        (folder / "master").write_text(MASTER.format(user=USER, states=states))
        roster = ROSTER.format(ports=dict(server.ports), folder=server.folder)
        (folder / "roster").write_text(roster)
        server.known_hosts.unlink(missing_ok=True)

    def __call__(self, *words: str) -> Done:
        code = run(["-c", str(self.folder), *words])
        return Done(code, *self._capture.readouterr())

    def installed(self, *words: str) -> Done:
        """Run the installed command."""
        done = subprocess.run(
            [CATENA, "-c", str(self.folder), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={"HOME": str(self.server.home), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    noisy = '#!/bin/sh\necho noise; echo noise >&2\nexec /bin/sh -c "$1"\n'
    with SshServer({"noisy": noisy}) as found:
        yield found


@pytest.fixture
def catena(
    server: SshServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    monkeypatch.setenv("HOME", str(server.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Cli(server, tmp_path / "conf", capsys)


def trusted(catena: Cli) -> Cli:
    for kind in catena.server.ports:
        done = catena("ssh-key", "trust", kind, "--yes")
        assert done.returncode == 0, done.stderr
    return catena


def test_host_is_trusted_by_its_fingerprint_and_removed(catena: Cli) -> None:
    refused = catena("ssh", "plain", "-r", "echo never")
    assert refused.returncode == 3
    assert refused.stdout == ""
    # The message names the whole command that settles it.
    command = refused.stderr.strip().rpartition("catena ")[2].split()
    assert command[2:4] == ["ssh-key", "trust"]

    unasked = catena(*command[2:])
    assert unasked.returncode == 2
    name, kind, print_ = unasked.stdout.split()
    assert kind == "ssh-ed25519"
    assert catena("ssh-key", "trust", "plain", "--fingerprint", "SHA256:other").returncode == 2
    assert json.loads(catena("ssh-key", "list", "--out", "json").stdout) == []

    assert catena(*command[2:], "--fingerprint", print_).returncode == 0
    (row,) = json.loads(catena("ssh-key", "list", "--out", "json").stdout)
    assert row == {"host": name, "kind": kind, "fingerprint": print_}
    assert catena("ssh", "plain", "-r", "true").returncode == 0

    assert catena("ssh-key", "forget", "plain").returncode == 0
    assert catena("ssh", "plain", "-r", "true").returncode == 3
    assert catena("ssh-key", "forget", "plain").returncode == 2


def test_command_runs_on_every_host_of_a_glob(catena: Cli) -> None:
    done = trusted(catena).installed(
        "ssh", "*", "-r", "echo $((40 + 2)); echo e >&2", "--out", "json"
    )
    assert done.returncode == 0, done.stderr
    each = {"retcode": 0, "stdout": "42\n", "stderr": "e\n"}
    assert json.loads(done.stdout) == {"noisy": each, "plain": each}
    assert done.stderr == ""


def test_function_returns_the_same_as_catena_run(catena: Cli) -> None:
    trusted(catena)
    done = catena("ssh", "*", "test.ping", "--out", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"noisy": True, "plain": True})
    assert done.stderr == ""
    applied = catena("ssh", "*", "state.apply", "hello", "--out", "json")
    assert applied.returncode == 0, applied.stderr
    for kind, rows in json.loads(applied.stdout).items():
        (row,) = rows.values()
        assert row["__id__"] == f"{kind}-of-{kind}"
    assert catena("ssh", "plain", "state.apply", "bad").returncode == 1
    unknown = catena("ssh", "plain", "test.pong")
    assert unknown.returncode == 1
    assert "test.pong" in unknown.stdout + unknown.stderr


def test_ping_reinstalls_a_missing_program(catena: Cli) -> None:
    trusted(catena)
    for _ in range(2):
        assert catena("ssh", "plain", "test.ping", "--out", "txt").stdout == "plain: true\n"
    bundles = catena.server.folder / "thin-plain" / "bundles"
    for path in bundles.iterdir():
        path.unlink()
    assert catena("ssh", "plain", "test.ping", "--out", "txt").stdout == "plain: true\n"
    assert list(bundles.iterdir())


def test_exit_codes_distinguish_success_failure_usage_and_unreachable_hosts(catena: Cli) -> None:
    trusted(catena)
    assert catena("ssh", "plain", "-r", "true").returncode == 0
    assert catena("ssh", "plain", "-r", "exit 9").returncode == 1
    near = catena("ssh", "plian", "-r", "true")
    assert near.returncode == 2
    assert "did you mean 'plain'" in near.stderr
    port = free_ports(1)
    away = catena("ssh", f"{USER}@127.0.0.1:{port}", "-r", "true")
    assert away.returncode == 3
    assert "connect: 127.0.0.1" in away.stderr
    assert "refused" in away.stderr


def test_outputs_of_catena_ssh_equal_those_of_catena_run(catena: Cli) -> None:
    trusted(catena)
    texts = {
        "nested": "plain:\n    hi\n",
        "txt": "plain: hi\n",
        "yaml": "plain: hi\n",
        "json": '{\n    "plain": "hi"\n}\n',
        "jsonl": '{"plain": "hi"}\n',
        "quiet": "",
    }
    for out, text in texts.items():
        assert catena("ssh", "plain", "cmd.run", "echo hi", "--out", out).stdout == text, out
    terse = catena("ssh", "plain", "state.apply", "hello", "--state-output", "terse")
    assert "plain-of-plain - Function: test.succeed_with_changes" in terse.stdout
    bad = catena("ssh", "*", "state.apply", "bad", "--state-output", "terse")
    assert bad.stderr == "failed: noisy (code 1), plain (code 1)\n"


def test_hosts_are_targeted_by_their_roster_entries(catena: Cli) -> None:
    trusted(catena)
    for kind, text in {
        "-E": "no.*",
        "-L": "noisy",
        "-G": "colour:noisy",
        "-C": "G@colour:n* and not plain",
    }.items():
        assert catena("ssh", kind, text, "test.ping", "--out", "txt").stdout == "noisy: true\n"
    assert "takes -L" in catena("ssh", "noisy,plain", "test.ping").stderr


def test_runs_of_a_killed_command_are_listed_and_collected(catena: Cli) -> None:
    trusted(catena)
    there = catena.folder / "there"
    os.mkfifo(there)
    text = f"echo begun > {there}; read word < {there}; echo $word"
    process = subprocess.Popen(
        [CATENA, "-c", str(catena.folder), "ssh", "plain", "cmd.run", text],
        env={"HOME": str(catena.server.home), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        stdin=subprocess.DEVNULL,
    )
    assert there.read_text() == "begun\n"
    (row,) = json.loads(catena("ssh-run", "list", "--out", "json").stdout)
    assert row["state"] == f"followed by process {process.pid}"
    process.kill()
    process.wait(60)
    (row,) = json.loads(catena("ssh-run", "list", "--out", "json").stdout)
    assert (row["host"], row["fun"], row["state"]) == ("plain", "cmd.run", "left on the host")
    there.write_text("on\n")
    done = catena("ssh-run", "collect", row["jid"], "--out", "txt")
    assert (done.returncode, done.stdout) == (0, "plain: on\n")
    assert catena("ssh-run", "collect").stderr == "no run was left on a host\n"
    for verb in ("cancel", "forget"):
        assert "no run of job" in catena("ssh-run", verb, row["jid"]).stderr
    assert list(catena.server.folder.glob("thin-plain/runs/*")) == []


def test_runs_of_a_removed_host_can_be_forgotten(catena: Cli) -> None:
    spec = JobSpec("20261121214500000000", "cmd.run", ("true",))
    settings, _ = master_settings(str(catena.folder))
    port = free_ports(1)
    begun = Begun("127.0.0.1", f"{USER}@127.0.0.1:{port}", "", spec)
    child = os.fork()
    if child == 0:
        # The one who began it is no more.
        try:
            page = PushLedger(settings.state_dir).page(begun)
            page.begins(f"{spec.jid}-00000000-1", spec.fun, frozenset())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    away = catena.installed("ssh-run", "collect")
    assert away.returncode == 3
    assert "127.0.0.1: connect: " in away.stderr
    assert catena("ssh-run", "forget", spec.jid).stdout.startswith(spec.jid)
    assert json.loads(catena("ssh-run", "list", "--out", "json").stdout) == []


def test_wiped_host_has_no_files_of_catena(catena: Cli) -> None:
    trusted(catena)
    done = catena("ssh", "*", "-W", "cmd.run", "echo hi", "--out", "txt")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["noisy: hi", "plain: hi"])
    assert list(catena.server.folder.glob("thin-*")) == []
    assert catena("ssh-run", "clean", "plain").returncode == 0


def test_readable_roster_with_passwords_is_reported(catena: Cli) -> None:
    roster = catena.folder / "roster"
    roster.write_text(roster.read_text().replace("thin_dir", "passwd: hunter2\n  thin_dir"))
    roster.chmod(0o644)
    done = trusted(catena)("ssh", "plain", "-r", "true")
    assert "warning: " in done.stderr and f"chmod 600 {roster}" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_unreachable_host_does_not_block_the_others(catena: Cli) -> None:
    port = free_ports(1)
    with (catena.folder / "roster").open("a") as stream:
        stream.write(f"away:\n  host: 127.0.0.1\n  port: {port}\n")
    done = trusted(catena)("ssh", "*", "-r", "echo here", "--out", "json")
    assert done.returncode == 3
    assert sorted(json.loads(done.stdout)) == ["noisy", "plain"]
    assert done.stderr.startswith("away: connect: ")


def test_host_without_a_roster_entry_is_reached(catena: Cli) -> None:
    where = f"{USER}@127.0.0.1:{catena.server.ports['plain']}"
    done = trusted(catena)("ssh", where, "-r", "echo yes", "--out", "json")
    assert json.loads(done.stdout)["127.0.0.1"]["stdout"] == "yes\n"


def test_roster_error_names_its_line(catena: Cli) -> None:
    (catena.folder / "roster").write_text("web1:\n  host: a\n  usr: b\n")
    done = catena("ssh", "*", "-r", "true")
    assert done.returncode == 2
    assert f"{catena.folder}/roster:3: web1: unknown key 'usr'; did you mean 'user'" in done.stderr


@pytest.mark.parametrize("text", [each for each in INJECTIONS if each])
def test_injected_command_line_text_is_not_executed(catena: Cli, text: str) -> None:
    """Attack row 2017-5200: host, user and port of a target."""
    for target in (f"{text}@127.0.0.1", f"root@{text}", f"127.0.0.1:{text}"):
        done = catena("ssh", target, "-r", "true")
        assert done.returncode in (2, 3), (target, done.stderr)
    assert not list(catena.server.folder.glob("X*"))
    assert not (catena.server.home / "X").exists()


def test_only_arguments_of_raw_commands_are_shell_text(catena: Cli) -> None:
    done = trusted(catena)("ssh", "plain", "-r", "printf '%s|' \"a b\" '$HOME'", "--out", "json")
    assert json.loads(done.stdout)["plain"]["stdout"] == "a b|$HOME|"


def test_ssh_configuration_cannot_make_a_host_trusted(catena: Cli) -> None:
    config = catena.server.home / ".ssh" / "config"
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    config.chmod(0o600)
    try:
        assert "not known" in catena("ssh", "plain", "-r", "true").stderr
    finally:
        config.unlink()
