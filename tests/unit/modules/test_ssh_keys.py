"""Lines of authorized_keys, and the arguments that describe them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.shared import accounts
from catena.modules.shared.accounts import Accounts, User
from catena.modules.ssh import functions, keys
from catena.modules.ssh.keys import AuthorizedKey

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJ+2ANNEAnOcDu6y17ebZCdDtUhhgYyB5CL25EhLAw3k"
FORCED = 'no-pty,command="ssh-rsa a, \\"b\\" c",from="10.0.0.1,10.0.0.2"'
TEXT = f"# a comment\n\n{FORCED} ssh-ed25519 {KEY} me at home\nnonsense\nssh-rsa !bad x"


def test_quoted_options_may_hold_spaces_commas_and_key_types() -> None:
    found = keys.by_key(TEXT)[KEY]
    assert found.enc == "ssh-ed25519"
    assert found.comment == "me at home"
    assert found.options[0] == "no-pty"
    assert found.options[1] == 'command="ssh-rsa a, \\"b\\" c"'
    assert found.line() == f"{FORCED} ssh-ed25519 {KEY} me at home"
    assert list(keys.by_key(TEXT)) == [KEY]


def test_change_of_a_key_keeps_all_other_lines() -> None:
    one = AuthorizedKey(KEY, "ssh-ed25519", "new")
    assert keys.status_of(TEXT, one) == "update"
    changed = keys.with_key(TEXT, one)
    assert f"\nssh-ed25519 {KEY} new\n" in changed
    assert keys.status_of(changed, one) == "exists"
    assert keys.with_key(changed, one) == changed
    assert keys.without_key(changed, KEY) == "# a comment\n\nnonsense\nssh-rsa !bad x"
    other = AuthorizedKey("AAAA", "ssh-rsa", "x")
    assert keys.with_key(TEXT, other) == f"{TEXT}\nssh-rsa AAAA x\n"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("AAAA", "no-pty ssh-rsa AAAA given"),
        ("AAAA of me", "no-pty ssh-rsa AAAA of me"),
        ("ssh-dss AAAA", "no-pty ssh-dss AAAA given"),
        ("ecdsa-sha2-nistp256 AAAA me", "no-pty ecdsa-sha2-nistp256 AAAA me"),
        ('from="a b" ssh-dss AAAA me', 'from="a b" ssh-dss AAAA me'),
        ("sk-ssh-ed25519@openssh.com AAAA x", "no-pty sk-ssh-ed25519@openssh.com AAAA x"),
    ],
)
def test_name_of_a_state_overrides_its_arguments(name: str, line: str) -> None:
    assert keys.wanted(name, "ssh-rsa", "given", ["no-pty"]).line() == line


@pytest.mark.parametrize(
    "arguments",
    [
        (5, "rsa", "", None),
        ("", "rsa", "", None),
        ("AAAA", "rsa", "a\nssh-rsa BBBB", None),
        ("AAAA\nssh-rsa BBBB", "rsa", "", None),
        ("AAAA", "rsa", "", ["a\nssh-rsa BBBB"]),
        ("AAAA", "rsa", "", {"a": 1}),
    ],
)
def test_arguments_of_wrong_types_and_several_lines_are_refused(arguments: Any) -> None:
    with pytest.raises(UsageError):
        keys.wanted(*arguments)


def test_types_and_fingerprints() -> None:
    assert keys.refined("ed25519") == keys.refined("ssh-ed25519") == "ssh-ed25519"
    with pytest.raises(CommandExecutionError, match="Incorrect encryption key type 'des'"):
        keys.refined("des")
    assert keys.fingerprint("AAAA", "md5") == "69:3e:9a:f8:4d:3d:fc:c7:1e:64:0e:00:5b:dc:5e:2e"
    assert keys.fingerprint("no key") is None
    with pytest.raises(CommandExecutionError, match="rot13 is not supported"):
        keys.fingerprint("AAAA", "rot13")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import os

    tmp_path.chmod(0o755)
    user = User("kay", os.geteuid(), os.getegid(), "", str(tmp_path), "/bin/sh")
    found = Accounts({"kay": user, "gone": User("gone", 1, 1, "", "/no/home", "")})
    monkeypatch.setattr(accounts, "read", lambda root=None: found)
    monkeypatch.setattr(accounts, "find", found.users.get)
    return tmp_path


CONTEXT: Any = None


def test_key_is_added_updated_and_removed_once(home: Path) -> None:
    def add(comment: str) -> str:
        return functions.set_auth_key(CONTEXT, "kay", KEY, "ed25519", comment)

    assert [add("a"), add("a"), add("b"), add("b")] == ["new", "no change", "replace", "no change"]
    assert (home / ".ssh" / "authorized_keys").read_text() == f"ssh-ed25519 {KEY} b\n"
    assert functions.auth_keys(CONTEXT, "kay")[KEY]["comment"] == "b"
    assert list(functions.auth_keys(CONTEXT)) == ["kay"]
    removals = [functions.rm_auth_key(CONTEXT, "kay", KEY) for _ in range(2)]
    assert removals == ["Key removed", "Key not present"]


def test_results_for_missing_users_homes_and_bad_keys(home: Path) -> None:
    assert functions.set_auth_key(CONTEXT, "nobody-here", KEY) == "fail"
    assert functions.set_auth_key(CONTEXT, "gone", KEY) == "fail"
    assert functions.set_auth_key(CONTEXT, "kay", "a b") == "invalid"
    assert functions.set_auth_key(CONTEXT, "kay", "notakey") == "Invalid public key"
    assert functions.check_key(CONTEXT, "nobody-here", KEY, "rsa", "", []) == "add"
    assert functions.auth_keys(CONTEXT, "nobody-here") == {}
    assert list(home.iterdir()) == []


def test_tokens_of_the_path_are_replaced(home: Path) -> None:
    assert functions.path_of("kay", "%h/k_%u%%") == home / "k_kay%"
    assert functions.path_of("kay", "/etc/keys/%u") == Path("/etc/keys/kay")
    with pytest.raises(CommandExecutionError, match='unknown token character "%x"'):
        functions.path_of("kay", "%x")


def test_private_keys_are_returned_only_on_request(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("private\n")
    (home / ".ssh" / "id_rsa.pub").write_text("public\n")
    assert functions.user_keys(CONTEXT) == {"kay": {"id_rsa.pub": "public"}}
    found = functions.user_keys(CONTEXT, "kay", pubfile=False, prvfile="id_rsa")
    assert found == {"kay": {"id_rsa": "private"}}
    (home / "ssh_host_rsa_key").write_text("private\n")
    (home / "ssh_host_rsa_key.pub").write_text("public\n")
    assert functions.host_keys(CONTEXT, str(home)) == {"rsa.pub": "public"}
    assert functions.host_keys(CONTEXT, str(home), private=True)["rsa"] == "private"


def test_encrypted_private_keys_are_recognised(home: Path) -> None:
    import subprocess

    for name, word in (("plain", ""), ("locked", "secret")):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-f", str(home / name)]
        subprocess.run(words, check=True)
        assert functions.key_is_encrypted(CONTEXT, str(home / name)) is bool(word)


def test_user_that_the_directory_does_not_list_is_found(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "read", lambda root=None: Accounts())
    assert functions.set_auth_key(CONTEXT, "kay", KEY, "ed25519") == "new"
    assert list(functions.auth_keys(CONTEXT, "kay")) == [KEY]
    assert functions.auth_keys(CONTEXT) == {}
