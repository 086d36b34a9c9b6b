"""Stored forms of PostgreSQL's passwords, against the published examples."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from catena.core.errors import UsageError
from catena.modules.postgres import passwords

#: RFC 7677, section 3: user "user", password "pencil".
_SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def test_scram_follows_the_example_of_the_rfc() -> None:
    made = passwords._scram("pencil", base64.b64decode(_SALT), 4096)
    message = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        f"s={_SALT},i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(made.server_key, message.encode(), hashlib.sha256)
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_md5_is_that_of_the_password_and_the_role() -> None:
    expected = "md5" + hashlib.md5(b"secretjoe").hexdigest()
    assert passwords.hashed("joe", "secret", "md5") == expected


@pytest.mark.parametrize("method", ["md5", "scram-sha-256"])
@pytest.mark.parametrize("password", ["x", "", "pä ß", "Ⅸ", "\u0627\u0031", "a\u0007b", "\u00ad"])
def test_stored_form_matches_its_password_only(method: str, password: str) -> None:
    stored = passwords.hashed("joe", password, method)
    assert passwords.is_hashed(stored)
    assert passwords.matches("joe", password, stored)
    assert passwords.matches("joe", password, stored, method)
    assert not passwords.matches("joe", f"{password}!", stored)
    other = "md5" if method != "md5" else "scram-sha-256"
    assert not passwords.matches("joe", password, stored, other)


def test_stored_form_is_compared_as_it_is() -> None:
    stored = passwords.hashed("joe", "x", "scram-sha-256")
    assert passwords.hashed("joe", stored, "md5") == stored
    assert passwords.matches("joe", stored, stored, "md5")
    assert not passwords.matches("joe", stored, "")


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "x",
        "md5xyz",
        "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$999999999:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:A$A=A:AAAA",
    ],
)
def test_damaged_stored_form_matches_nothing(stored: str) -> None:
    assert not passwords.matches("joe", "x", stored)


def test_method_is_checked() -> None:
    assert [passwords.method_of(one) for one in (None, True, False, "yes")] == [""] * 4
    assert passwords.method_of("SCRAM-SHA-256") == "scram-sha-256"
    with pytest.raises(UsageError, match="use scram-sha-256 or md5"):
        passwords.method_of("rot13")
