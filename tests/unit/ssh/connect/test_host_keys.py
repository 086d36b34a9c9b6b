"""Verdicts about host keys by known_hosts files."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from catena.ssh.connect import host_keys
from catena.ssh.connect.errors import HostKeyError
from catena.ssh.connect.host_keys import HostKey, KeyVerdict

KEY = HostKey("ssh-ed25519", b"one")
OTHER = HostKey("ssh-ed25519", b"two")
RSA = HostKey("ssh-rsa", b"three")


def line(names: str, key: HostKey = KEY, marker: str = "") -> str:
    return f"{marker} {names} {key.kind} {base64.b64encode(key.blob).decode()} comment".strip()


def hashed(name: str) -> str:
    salt = b"12345678901234567890"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def judged(tmp_path: Path, lines: list[str], name: str = "web1", key: HostKey = KEY) -> KeyVerdict:
    path = tmp_path / "known_hosts"
    path.write_text("\n".join(lines) + "\n")
    return host_keys.judge(host_keys.read([path]), name, key)[0]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("web1", "web1"),
        ("a,web1,10.0.0.1", "10.0.0.1"),
        ("WEB1", "web1"),
        ("*.example", "web1.example"),
        ("web?", "web1"),
        ("[web1]:2222", "[web1]:2222"),
        ("[*]:2222", "[web1]:2222"),
        (hashed("web1"), "web1"),
        (hashed("[web1]:2222"), "[web1]:2222"),
    ],
)
def test_line_is_found_by_name_pattern_port_and_hash(
    tmp_path: Path, names: str, name: str
) -> None:
    assert judged(tmp_path, ["# comment", "", line(names)], name) is KeyVerdict.known


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("web2", "web1"),
        ("web1", "[web1]:2222"),
        ("[web1]:2222", "web1"),
        ("*,!web1", "web1"),
        ("[ab]", "a"),
        (hashed("web2"), "web1"),
        ("|1|nonsense", "web1"),
    ],
)
def test_other_lines_are_about_others(tmp_path: Path, names: str, name: str) -> None:
    assert judged(tmp_path, [line(names)], name) is KeyVerdict.unknown


def test_known_host_with_only_another_key_is_a_change(tmp_path: Path) -> None:
    assert judged(tmp_path, [line("web1", OTHER)]) is KeyVerdict.changed
    assert judged(tmp_path, [line("web1", RSA)]) is KeyVerdict.changed


def test_one_matching_line_is_sufficient(tmp_path: Path) -> None:
    assert judged(tmp_path, [line("web1", OTHER), line("*")]) is KeyVerdict.known


def test_revoked_key_is_refused_despite_other_matching_lines(tmp_path: Path) -> None:
    lines = [line("web1"), line("*", KEY, "@revoked")]
    assert judged(tmp_path, lines) is KeyVerdict.revoked


def test_line_of_an_authority_is_no_key_of_a_host(tmp_path: Path) -> None:
    assert judged(tmp_path, [line("*", KEY, "@cert-authority")]) is KeyVerdict.unknown


@pytest.mark.parametrize(
    "text", ["web1", "web1 ssh-ed25519", "web1 ssh-ed25519 !!!", "@odd a b c"]
)
def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path, text: str) -> None:
    assert judged(tmp_path, [text, line("web1")]) is KeyVerdict.known


def test_known_kinds_are_asked_for_first() -> None:
    entries = [host_keys._entry(line("web1", key), "") for key in (RSA, KEY)]
    assert host_keys.kinds_known([e for e in entries if e], "web1") == ["ssh-rsa", "ssh-ed25519"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "not known"),
        ([line("web1", OTHER)], "host key changed"),
        ([line("web1", KEY, "@revoked")], "revoked"),
    ],
)
def test_refusal_names_key_and_command(tmp_path: Path, lines: list[str], words: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("\n".join(lines))
    with pytest.raises(HostKeyError, match=words) as caught:
        host_keys.check(host_keys.read([path]), "id", "catena ssh-key trust web1", "web1", KEY)
    assert KEY.fingerprint in str(caught.value)
    assert ("catena ssh-key trust web1" in str(caught.value)) == (words != "revoked")
    assert not caught.value.waits


def test_trusting_replaces_what_was_trusted_and_forgetting_takes_it_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "known_hosts"
    host_keys.trust(path, "web1", [OTHER, RSA])
    host_keys.trust(path, "web2", [OTHER])
    host_keys.trust(path, "web1", [KEY])
    assert host_keys.judge(host_keys.read([path]), "web1", KEY)[0] is KeyVerdict.known
    assert host_keys.judge(host_keys.read([path]), "web1", OTHER)[0] is KeyVerdict.changed
    assert path.stat().st_mode & 0o777 == 0o600
    assert host_keys.forget(path, "web1") == [KEY]
    assert host_keys.forget(path, "web1") == []
    assert host_keys.judge(host_keys.read([path]), "web2", OTHER)[0] is KeyVerdict.known


def test_missing_known_hosts_file_has_no_entries(tmp_path: Path) -> None:
    assert host_keys.read([tmp_path / "none"]) == []
