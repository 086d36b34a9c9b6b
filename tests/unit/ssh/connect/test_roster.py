"""Rosters: Salt's keys, faults with their line, and which hosts a target means."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.core.config.master import MasterSettings
from catena.core.errors import ConfigError, UsageError
from catena.ssh.connect import roster
from catena.ssh.connect.target import SshTarget
from tests.support.injections import INJECTIONS


def read(tmp_path: Path, text: str, **settings: object) -> dict[str, SshTarget]:
    path = tmp_path / "roster"
    path.write_text(text)
    made = MasterSettings(cache_dir=str(tmp_path), roster_file=str(path), **settings)  # type: ignore[arg-type]
    return roster.read(made)


FULL = """\
{% for number in (1, 2) %}
web{{ number }}:
  host: 10.0.0.{{ number }}
  user: deploy
  passwd: s3cret
  port: 2222
  sudo: True
  sudo_user: app
  tty: True
  priv: ~/.ssh/deploy
  priv_passwd: more
  identities_only: True
  timeout: 30
  thin_dir: /opt/thin
  python: /usr/bin/python3.11
  cmd_umask: 0022
  set_path: $PATH:/opt/bin
  minion_opts:
    grains: {role: web}
{% endfor %}
db: 10.0.0.9
"""


def test_salts_keys_mean_what_they_mean_there(tmp_path: Path) -> None:
    found = read(tmp_path, FULL)
    assert sorted(found) == ["db", "web1", "web2"]
    assert found["web2"] == SshTarget(
        "web2",  # type: ignore[arg-type]
        "10.0.0.2",
        2222,
        "deploy",
        "s3cret",
        "~/.ssh/deploy",
        "more",
        True,
        True,
        "app",
        True,
        30,
        "/usr/bin/python3.11",
        "/opt/thin",
        0o022,
        "$PATH:/opt/bin",
        {"grains": {"role": "web"}},
    )
    assert found["db"].host == "10.0.0.9"


def test_settings_and_defaults_fill_what_a_host_leaves_open(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "a:\n  host: a\n  user: own\nb:\n  host: b\n  minion_opts: {x: 1}\n",
        ssh_user="every",
        ssh_port=2200,
        ssh_minion_opts={"y": 2},
        roster_defaults={"sudo": True},
    )
    assert (found["a"].user, found["b"].user) == ("own", "every")
    assert found["a"].port == 2200
    assert found["a"].sudo
    assert found["b"].minion_opts == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n  host: a\n  usr: x\n", r"roster:3: a: unknown key 'usr'; did you mean 'user'"),
        ("a:\n  user: x\n", "host: is missing"),
        ("a:\n  host: a\n  port: 0\n", r"roster:3: a: port: '0' is not a port"),
        ("a:\n  host: a\n  passwd: 1234\n", "put it in quotes"),
        ("a:\n  host: a\n  sudo: maybe\n", "expected True or False"),
        (
            "a:\n  host: a\n  minion_opts: {saltnv: x}\n",
            r"roster:3: a: minion_opts: unknown setting 'saltnv'; did you mean 'saltenv'",
        ),
        ("a:\n  host: a\n  cmd_umask: 9999\n", "umask"),
        ("a:\n  host: a\n  ssh_options: ['-o x']\n", "SSH configuration"),
        ("a:\n  host: a\n  ssh_pre_flight: /x.sh\n", "not supported"),
        ("a:\n  - host: a\n", "expected host:"),
        ("a b:\n  host: a\n", r"roster:1: 'a b' is not a minion id"),
        ("- a\n", "a roster is a mapping"),
        ("a:\n  host: {{ nowhere }}\n", "nowhere"),
    ],
)
def test_fault_names_its_line_and_the_nearest_right_name(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "key", ["host", "user", "port", "sudo_user", "thin_dir", "python", "priv"]
)
@pytest.mark.parametrize("text", [each for each in INJECTIONS if each and each.strip() == each])
def test_injections_do_not_pass_a_roster(tmp_path: Path, key: str, text: str) -> None:
    keys = {"host": "a", key: text}
    with pytest.raises(ConfigError):
        roster.from_keys("web1", keys, lambda name: "roster:1")


def test_missing_roster_is_empty_unless_it_is_configured(tmp_path: Path) -> None:
    settings = MasterSettings(cache_dir=str(tmp_path), roster_file=str(tmp_path / "none"))
    assert roster.read(settings) == {}
    with pytest.raises(ConfigError, match="no such roster"):
        roster.read(settings, str(tmp_path / "none"))


HOSTS = "web1: a1\nweb2: a2\ndb1:\n  host: a3\n  minion_opts: {grains: {role: db}}\n"
SETTINGS = MasterSettings(nodegroups={"dbs": "G@role:db", "some": "web1,db1"})


@pytest.mark.parametrize(
    ("text", "kind", "ids"),
    [
        ("*", "glob", ["web1", "web2", "db1"]),
        ("web*", "glob", ["web1", "web2"]),
        ("web[2-9]", "glob", ["web2"]),
        ("db1,web1", "list", ["web1", "db1"]),
        ("web1|db1", "pcre", ["web1", "db1"]),
        ("dbs", "nodegroup", ["db1"]),
        ("some", "nodegroup", ["web1", "db1"]),
        ("role:db", "grain", ["db1"]),
        ("web* and not web2 or G@role:d*", "compound", ["web1", "db1"]),
        ("me@web1", "glob", ["web1"]),
        ("root@new,web2", "list", ["new", "web2"]),
    ],
)
def test_targets(tmp_path: Path, text: str, kind: str, ids: list[str]) -> None:
    found = roster.targets(read(tmp_path, HOSTS), SETTINGS, text, kind)
    assert [target.id for target in found] == ids


def test_user_before_a_roster_id_replaces_only_the_user(tmp_path: Path) -> None:
    (found,) = roster.targets(read(tmp_path, HOSTS), SETTINGS, "me@web1:2222", "glob")
    assert (found.id, found.host, found.user, found.port) == ("web1", "a1", "me", 2222)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("web", "glob", "did you mean"),
        ("x*", "glob", "no host of the roster"),
        ("web1,db1", "glob", "a list of ids takes -L"),
        ("web1,wbe2", "list", "did you mean 'web2'"),
        ("(", "pcre", "regular expression"),
        ("a@x:1,b@x:2", "list", "two hosts would be called x"),
        ("-oProxyCommand=x", "glob", "user@host"),
    ],
)
def test_target_that_matches_no_host_is_reported(
    tmp_path: Path, text: str, kind: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        roster.targets(read(tmp_path, HOSTS), SETTINGS, text, kind)


@pytest.mark.parametrize(
    ("mode", "text", "words"),
    [
        (0o644, "a: {host: x, passwd: s3cret}", "it holds passwords, and others may read it"),
        (0o644, "a: {host: x, priv_passwd: s3cret}", "chmod 600"),
        (0o600, "a: {host: x, passwd: s3cret}", ""),
        (0o644, "a: {host: x}", ""),
        (0o646, "a: {host: x}", "others may write to it"),
    ],
)
def test_roster_accessible_to_others_is_reported(
    tmp_path: Path, mode: int, text: str, words: str
) -> None:
    path = tmp_path / "roster"
    path.write_text(text)
    path.chmod(mode)
    settings = MasterSettings(cache_dir=str(tmp_path), roster_file=str(path))
    said = roster.exposed(settings, "", roster.read(settings))
    assert words in said
    assert bool(words) == bool(said)
    assert "s3cret" not in said
