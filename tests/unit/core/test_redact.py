from __future__ import annotations

import pytest

from catena.core.redact import (
    MASK,
    hide_arguments,
    hide_named,
    hide_url_passwords,
    is_secret_name,
    mask,
)


def test_mask_keeps_keys_structure_and_nulls() -> None:
    data = {"a": {"b": "s", "n": 5, "z": None}, "l": ["x", True]}
    assert mask(data) == {"a": {"b": MASK, "n": MASK, "z": None}, "l": [MASK, MASK]}


@pytest.mark.parametrize(
    "name", ["password", "db_passwd", "API_KEY", "secret", "enrol_token", "private_key", "pass"]
)
def test_name_of_a_secret_is_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["name", "bypass_check", "compass", "path", "key"])
def test_ordinary_name_is_not_taken_for_a_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_secret_arguments_of_commands_are_hidden() -> None:
    given = ["x", "token=t0p", {"env": {"X": "e"}, "stdin": "i", "pillar": {"a": 1}, "cwd": "/"}]
    hidden = ["x", f"token={MASK}", {"env": MASK, "stdin": MASK, "pillar": MASK, "cwd": "/"}]
    assert hide_arguments(given) == hidden
    assert hide_arguments([{"user": "a", "args": [{"password": "p"}], "env": None}]) == [
        {"user": "a", "args": [{"password": MASK}], "env": None}
    ]


def test_nested_secrets_are_hidden_and_booleans_are_kept() -> None:
    data = {"users": [{"name": "a", "password": "p"}], "no_password": True}
    assert hide_named(data) == {"users": [{"name": "a", "password": MASK}], "no_password": True}


def test_passwords_of_addresses_are_hidden_wherever_they_stand() -> None:
    data = {
        "https://bob:s3cret@a/": ["x http://:s3cret@b c", {"k": ("ftp://u:s3cret@h", 1, None)}],
        "plain": "https://a.example:8080/x@y and bob@example.org",
    }
    assert hide_url_passwords(data) == {
        f"https://bob:{MASK}@a/": [f"x http://:{MASK}@b c", {"k": [f"ftp://u:{MASK}@h", 1, None]}],
        "plain": "https://a.example:8080/x@y and bob@example.org",
    }
