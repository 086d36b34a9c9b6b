"""The user's SSH configuration: aliases, keys, jump hosts, includes, refusals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CatenaError
from catena.core.ids import minion_id
from catena.ssh.connect.client_config import ClientFiles, Hop, route, user_files
from catena.ssh.connect.target import SshTarget


def routed(tmp_path: Path, config: str, host: str = "web1", **fields: Any) -> tuple[Hop, ...]:
    path = tmp_path / ".ssh" / "config"
    path.parent.mkdir(exist_ok=True)
    path.write_text(config)
    path.chmod(0o600)
    files = ClientFiles(tmp_path, (path,), tmp_path / "own", "/run/agent")
    return route(SshTarget(minion_id("id"), host, **fields), files)


def test_alias_gives_host_port_user_and_key(tmp_path: Path) -> None:
    config = "Host web1\n  HostName 10.0.0.1\n  Port 2222\n  User me\n  IdentityFile ~/k\n"
    (hop,) = routed(tmp_path, config)
    assert (hop.host, hop.port, hop.user, hop.asked) == ("10.0.0.1", 2222, "me", "web1")
    assert hop.identities == (tmp_path / "k",)
    assert hop.key_name == "[10.0.0.1]:2222"
    assert hop.agent == "/run/agent"


def test_roster_wins_over_the_configuration(tmp_path: Path) -> None:
    config = "Host *\n  Port 2222\n  User me\n  IdentityFile ~/k\n"
    fields: dict[str, Any] = {
        "port": 22,
        "user": "root",
        "private_key": "/keys/deploy",
        "password": "x",
    }
    (hop,) = routed(tmp_path, config, **fields)
    assert (hop.port, hop.user, hop.password) == (22, "root", "x")
    assert hop.identities == (Path("/keys/deploy"),)


def test_default_keys_are_tried_without_configuration(tmp_path: Path) -> None:
    (hop,) = routed(tmp_path, "")
    assert [path.name for path in hop.identities] == ["id_ed25519", "id_ecdsa", "id_rsa"]
    assert hop.known_hosts[0] == tmp_path / "own"
    assert tmp_path / ".ssh" / "known_hosts" in hop.known_hosts


def test_alias_of_the_key_agent_and_known_hosts(tmp_path: Path) -> None:
    config = (
        "Host web1\n  HostKeyAlias other\n  IdentityAgent none\n  IdentitiesOnly yes\n"
        "  UserKnownHostsFile ~/a ~/b\n  CertificateFile ~/c-cert.pub\n"
    )
    (hop,) = routed(tmp_path, config)
    assert hop.key_name == "other"
    assert hop.agent == ""
    assert hop.identities_only
    assert hop.known_hosts[:3] == (tmp_path / "own", tmp_path / "a", tmp_path / "b")
    assert hop.certificates == (tmp_path / "c-cert.pub",)


def test_jump_hosts_come_first_with_their_own_configuration(tmp_path: Path) -> None:
    config = (
        "Host web1\n  ProxyJump me@gate:2200,inner\n"
        "Host gate\n  HostName gate.example\n  ProxyJump outer\nHost inner\n  User deep\n"
    )
    hops = routed(tmp_path, config, password="secret")
    assert [hop.host for hop in hops] == ["outer", "gate.example", "inner", "web1"]
    assert (hops[1].user, hops[1].port, hops[1].key_name) == ("me", 2200, "[gate.example]:2200")
    assert hops[2].user == "deep"
    assert [hop.password for hop in hops] == ["", "", "", "secret"]


def test_jump_hosts_in_a_circle_are_an_error(tmp_path: Path) -> None:
    config = "Host web1\n  ProxyJump b\nHost b\n  ProxyJump web1\n"
    with pytest.raises(CatenaError, match="circle"):
        routed(tmp_path, config)


def test_proxy_command_runs_without_a_shell(tmp_path: Path) -> None:
    config = "Host web1\n  ProxyCommand exec nc -x 'a b' %h %p; touch %%h %z\n"
    (hop,) = routed(tmp_path, config)
    assert hop.proxy_command == ("nc", "-x", "a b", "web1", "22;", "touch", "%h", "%z")


def test_include_is_put_in(tmp_path: Path) -> None:
    folder = tmp_path / ".ssh" / "conf.d"
    folder.mkdir(parents=True)
    for name, user in (("10.conf", "first"), ("20.conf", "second")):
        (folder / name).write_text(f"Host web1\n  User {user}\n")
        (folder / name).chmod(0o600)
    (hop,) = routed(tmp_path, "Include conf.d/*.conf\nHost *\n  Port 2222\n")
    assert (hop.user, hop.port) == ("first", 2222)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("Host *\n  HostName $(id)\n", "is not a host"),
        ("Host *\n  User `id`\n", "is not a user"),
        ("Host *\n  Port many\n", "is not a port"),
        ("Host *\n  ProxyJump -oProxyCommand=x\n", "is not a"),
        ('Match exec "touch X"\n  User a\n', "Match exec"),
        ("Include config\n", "deeper"),
        ("Host *\n  ProxyCommand 'a\n", "ProxyCommand"),
        ("Host\n", "SSH configuration"),
    ],
)
def test_invalid_ssh_configuration_is_refused(tmp_path: Path, config: str, words: str) -> None:
    with pytest.raises(CatenaError, match=words):
        routed(tmp_path, config)


def test_configuration_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host *\n  ProxyCommand evil\n")
    path.chmod(0o666)
    with pytest.raises(CatenaError, match="others may write"):
        route(SshTarget(minion_id("a"), "a"), ClientFiles(tmp_path, (path,), tmp_path / "own"))


def test_users_files_need_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    files = user_files(Path("/own"))
    assert files.home.is_absolute()
    assert files.agent == ""
    assert os.environ.get("HOME") is None
