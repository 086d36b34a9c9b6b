"""Valid and invalid certificates of SSH hosts."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from catena.ssh.connect.host_certificate import (
    Certificate,
    CertificateError,
    check,
    parse,
)
from tests.support.ssh_server import make_key


def signed(folder: Path, *options: str, ca: str = "ca", kind: str = "ed25519") -> bytes:
    """Return a certificate by ssh-keygen."""
    if not (folder / ca).exists():
        make_key(folder / ca, kind)
    if not (folder / "key").exists():
        make_key(folder / "key")
    argv = ["ssh-keygen", "-q", "-s", str(folder / ca), "-I", "box", *options]
    subprocess.run([*argv, str(folder / "key.pub")], check=True, capture_output=True, timeout=60)
    return base64.b64decode((folder / "key-cert.pub").read_text().split()[1])


def public(folder: Path, name: str = "ca") -> bytes:
    return base64.b64decode((folder / f"{name}.pub").read_text().split()[1])


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_authority_vouches_for_a_name(tmp_path: Path, kind: str) -> None:
    blob = signed(tmp_path, "-h", "-n", "box,*.example.org", "-V", "-1h:+1h", kind=kind)
    found = parse(blob)
    assert (found.key_id, found.principals) == ("box", ("box", "*.example.org"))
    for host in ("box", "BOX", "a.example.org"):
        check(found, host, [public(tmp_path)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-h", "-n", "other"), "it is for other, not for box"),
        (("-h",), "it is for nobody"),
        (("-n", "box"), "a user's certificate"),
        (("-h", "-n", "box", "-V", "20200101:20200102"), "not valid now"),
        (("-h", "-n", "box", "-V", "+1d:+2d"), "not valid now"),
    ],
)
def test_certificate_of_something_else_is_refused(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    found = parse(signed(tmp_path, *options))
    with pytest.raises(CertificateError, match=words):
        check(found, "box", [public(tmp_path)])


def test_other_authority_and_altered_certificate_are_refused(tmp_path: Path) -> None:
    found = parse(signed(tmp_path, "-h", "-n", "other"))
    make_key(tmp_path / "stranger")
    with pytest.raises(CertificateError, match="its authority is not one"):
        check(found, "other", [public(tmp_path, "stranger")])
    forged = replace(found, principals=("box",), signed=found.signed.replace(b"other", b"boxes"))
    with pytest.raises(CertificateError, match="its signature is wrong"):
        check(forged, "box", [public(tmp_path)])
    with pytest.raises(CertificateError, match="critical options"):
        check(replace(found, critical=b"x"), "other", [public(tmp_path)])


def test_truncated_or_altered_host_certificate_is_refused(tmp_path: Path) -> None:
    blob = signed(tmp_path, "-h", "-n", "box")
    keys = [public(tmp_path)]
    for end in range(len(blob)):
        with pytest.raises(CertificateError):
            parse(blob[:end])
    for at in range(len(blob)):
        bad = blob[:at] + bytes((blob[at] ^ 0xFF,)) + blob[at + 1 :]
        with pytest.raises(CertificateError):
            check(parse(bad), "box", keys)
    with pytest.raises(CertificateError, match="limit"):
        parse(bytes(100_000))
    assert isinstance(parse(blob), Certificate)
