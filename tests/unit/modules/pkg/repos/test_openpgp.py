"""Public keys: armor, packets, and what is none."""

from __future__ import annotations

import base64

import pytest

from catena.core.errors import CommandExecutionError
from catena.modules.pkg.repos.openpgp import armored, binary_keyring, is_armored, public_keys
from tests.support.openpgp_keys import (
    CURVE,
    CURVE_FINGERPRINT,
    CURVE_ID,
    RSA,
    RSA_FINGERPRINT,
    RSA_ID,
)


def test_keys_of_armored_text_are_found() -> None:
    data = binary_keyring(f"Some words.\n{CURVE}{RSA}".encode(), "k")
    first, second = public_keys(data, "k")
    assert (first.keyid, first.fingerprint) == (CURVE_ID, CURVE_FINGERPRINT)
    assert (first.algorithm, first.bits, first.created) == (22, 0, 1795449711)
    assert first.user_ids == ("Repository <repo@example.org>",)
    assert (second.keyid, second.fingerprint, second.bits) == (RSA_ID, RSA_FINGERPRINT, 1024)
    assert binary_keyring(data, "k") == data


def test_key_is_known_by_the_end_of_its_fingerprint() -> None:
    key = public_keys(binary_keyring(CURVE.encode(), "k"), "k")[0]
    for digits in (CURVE_FINGERPRINT, CURVE_ID.lower(), CURVE_ID[-8:]):
        assert key.has_id(digits)
    assert not key.has_id(RSA_ID)


def test_armor_is_that_of_gpg() -> None:
    data = binary_keyring(CURVE.encode(), "k")
    assert armored(data).decode() == CURVE
    assert is_armored(armored(data)) and not is_armored(data)


def test_armor_may_have_headers_and_other_line_ends() -> None:
    text = CURVE.replace("BLOCK-----\n\n", "BLOCK-----\nVersion: GnuPG\nComment: a b\n\n")
    plain = binary_keyring(CURVE.encode(), "k")
    assert binary_keyring(text.replace("\n", "\r\n").encode(), "k") == plain


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<!DOCTYPE html>\n<html><body>Not found</body></html>", "a page of HTML"),
        (b"  <html><head>", "a page of HTML"),
        (b"", "it is empty"),
        (b"404: Not Found", "it begins with '404: Not Found'"),
        (b"\0\0\0\x20\1\1\0\2KBXf\0\0\0\0", "a keybox of gpg"),
        (b"\x99\xff\xff", "is no OpenPGP public key"),
        (CURVE.replace("awRj", "awRk").encode(), "incomplete or damaged"),
        (CURVE[:200].encode(), "incomplete or damaged"),
        (CURVE.replace("mDME", "m?ME").encode(), "damaged"),
    ],
)
def test_what_is_no_key_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(CommandExecutionError, match=why) as error:
        binary_keyring(data, "https://a.example/key")
    assert "https://a.example/key" in str(error.value)


def test_cut_or_secret_keyring_is_refused() -> None:
    data = binary_keyring(CURVE.encode(), "k")
    with pytest.raises(CommandExecutionError, match="incomplete"):
        binary_keyring(data[:-3], "k")
    with pytest.raises(CommandExecutionError, match="secret key"):
        binary_keyring(bytes([0x94]) + data[1:], "k")
    with pytest.raises(CommandExecutionError, match="damaged at byte"):
        binary_keyring(data + base64.b64decode("AAAA"), "k")
