"""ssh_known_hosts.* and its functions; ssh-keygen reads what they write."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry
from catena.modules.shared import programs
from catena.modules.shared.command.run import Ran
from catena.states import ssh_known_hosts
from tests.unit.states.conftest import MakeWorld

ME = pwd.getpwuid(os.geteuid()).pw_name
RSA, ED = (
    "AAAAB3NzaC1yc2E=",
    "AAAAC3NzaC1lZDI1NTE5AAAAIJ+2ANNEAnOcDu6y17ebZCdDtUhhgYyB5CL25EhLAw3k",
)
OLD = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "known_hosts"
    path.write_text(f"# kept\nother,web1 ssh-ed25519 {OLD}\n@revoked web1 ssh-rsa {RSA}\n")
    return path


@pytest.fixture
def keyscan(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let ssh-keyscan show two keys of every host but "silent"."""
    calls: list[list[str]] = []

    def look(context: Any, words: list[str], package: str, **options: Any) -> Ran:
        assert (words[0], package) == ("ssh-keyscan", "openssh-client")
        calls.append(words)
        host = words[-1]
        shown = f"# {host}:22 SSH-2.0\n{host} ssh-rsa {RSA}\n{host} ssh-ed25519 {ED}\n"
        return Ran(1, 0, "" if host == "silent" else shown, "")

    monkeypatch.setattr(programs, "look", look)
    return calls


def ask(context: Context, file: Path, fun: str = "present", name: str = "new", **more: Any) -> Any:
    state = getattr(ssh_known_hosts, fun)
    return state(context, name, user=ME, config=str(file), **more)


def found_by_ssh(file: Path, host: str) -> list[str]:
    words = ["ssh-keygen", "-F", host, "-f", str(file)]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [line.split()[-1] for line in said.splitlines() if not line.startswith("#")]


CALLS = [
    ("present", {"name": "new", "key": ED, "enc": "ssh-ed25519"}),
    ("present", {"name": "new", "key": ED, "enc": "ssh-ed25519", "hash_known_hosts": False}),
    ("present", {"name": "new", "key": ED, "enc": "ssh-ed25519", "port": 2222,
                 "hash_known_hosts": False}),
    ("present", {"name": "other", "key": ED, "enc": "ssh-ed25519"}),
    ("present", {"name": "new"}),
    ("absent", {"name": "other"}),
]  # fmt: skip


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_second_run_changes_nothing(
    context: Context, file: Path, keyscan: Any, fun: str, arguments: Any
) -> None:
    first = ask(context, file, fun, **arguments)
    assert first.result is True, first
    assert first.changes
    before = file.read_text()
    second = ask(context, file, fun, **arguments)
    assert (second.result, second.changes) == (True, {})
    assert file.read_text() == before
    assert before.startswith("# kept\n")
    assert f"@revoked web1 ssh-rsa {RSA}\n" in before
    assert ask(context.with_(test=True), file, fun, **arguments).result is True


@pytest.mark.parametrize(("fun", "arguments"), CALLS)
def test_test_mode_reports_and_writes_nothing(
    context: Context, file: Path, keyscan: Any, fun: str, arguments: Any
) -> None:
    before = file.read_text()
    found = ask(context.with_(test=True), file, fun, **arguments)
    assert (found.result, found.changes) == (None, {})
    assert file.read_text() == before
    assert keyscan == []


def test_ssh_finds_hashed_names_and_ports(context: Context, file: Path) -> None:
    ask(context, file, key=ED, enc="ssh-ed25519")
    ask(context, file, name="far", key=ED, enc="ssh-ed25519", port="2222", hash_known_hosts=False)
    assert "new" not in file.read_text()
    assert f"[far]:2222 ssh-ed25519 {ED}\n" in file.read_text()
    assert found_by_ssh(file, "new") == found_by_ssh(file, "[far]:2222") == [ED]
    assert found_by_ssh(file, "far") == []


def test_entries_that_ssh_has_hashed_are_read(context: Context, file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "other" not in file.read_text()
    found = context.call("ssh.get_known_host_entries", ME, "OTHER", config=str(file))
    assert [one["key"] for one in found] == [OLD]


def test_names_are_hashed_on_request(context: Context, file: Path) -> None:
    found = context.call("ssh.hash_known_hosts", ME, str(file))
    assert found["status"] == "updated"
    assert "other" not in file.read_text()
    assert found_by_ssh(file, "other") == [OLD]
    assert OLD in found_by_ssh(file, "web1")


def test_only_a_key_of_the_same_type_is_replaced(
    context: Context, file: Path, keyscan: Any
) -> None:
    found = ask(context, file, name="other", key=RSA, enc="ssh-rsa")
    assert [one["key"] for one in found.changes["old"]] == [OLD]
    assert set(found_by_ssh(file, "other")) == {OLD, RSA}
    ask(context, file, name="other", key=ED, enc="ssh-ed25519")
    assert set(found_by_ssh(file, "other")) == {ED, RSA}
    # The line named two hosts; the other one keeps its key.
    assert OLD in found_by_ssh(file, "web1")


def test_fingerprint_chooses_among_the_shown_keys(
    context: Context, file: Path, keyscan: Any
) -> None:
    wrong = ask(context, file, fingerprint="00:11")
    assert wrong.result is False
    assert "none of their fingerprints match" in wrong.comment
    assert found_by_ssh(file, "new") == []
    from catena.modules.ssh.keys import fingerprint

    assert ask(context, file, fingerprint=fingerprint(ED)).result is True
    assert set(found_by_ssh(file, "new")) == {RSA, ED}
    assert ask(context, file, fingerprint=fingerprint(ED)).changes == {}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "silent"}, "Unable to receive remote host keys"),
        ({"key": ED}, "key needs its type: enc"),
        ({"key": "<html>", "enc": "ssh-rsa"}, "key must be a base64 text"),
        ({"port": 2222}, "argument port can not be used in conjunction"),
        ({"port": "x"}, "port must be a whole number, not 'x'"),
        ({"name": "-oProxyCommand=x"}, "can't be the name of a host"),
        ({"name": "a b"}, "can't be the name of a host"),
        ({"enc": "-f"}, "can't be the type of a key"),
        ({"fingerprints": "x"}, "did you mean 'fingerprint'"),
    ],
)
def test_bad_input_fails_and_writes_nothing(
    context: Context, file: Path, keyscan: Any, arguments: Any, told: str
) -> None:
    before = file.read_text()
    found = ask(context, file, **arguments)
    assert found.result is False
    assert told in found.comment
    assert file.read_text() == before


def test_relative_path_needs_a_user(context: Context) -> None:
    for state in (ssh_known_hosts.present, ssh_known_hosts.absent):
        found = state(context, "new", config=".ssh/known_hosts")
        assert found.comment == 'If not specifying a "user", specify an absolute "config".'


def test_options_that_exclude_each_other_fail_in_test_mode(context: Context, file: Path) -> None:
    context = context.with_(test=True)
    assert ask(context, file, key=ED, fingerprint="x").result is False
    assert ask(context, file, key=ED).result is False


def test_older_names_of_functions_return_one_entry(
    context: Context, file: Path, keyscan: Any
) -> None:
    assert context.call("ssh.recv_known_host", "new")["key"] == RSA
    assert context.call("ssh.recv_known_host", "silent") is None
    assert context.call("ssh.get_known_host", ME, "other", str(file))["key"] == OLD
    assert context.call("ssh.get_known_host", ME, "new", str(file)) is None
