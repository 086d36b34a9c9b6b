"""Credentials in URLs."""

from __future__ import annotations

import pytest

from catena.core.addresses import has_credentials, hide_credentials, without_credentials
from catena.core.redact import hide_arguments


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://u:s3cret@host/simple", "https://<redacted>@host/simple"),
        ("https://s3cret@host/simple", "https://<redacted>@host/simple"),
        ("git+https://u:p@s3cret@host/x.git#egg=x", "git+https://<redacted>@host/x.git#egg=x"),
        (
            "a https://u:s3cret@h/ b http://s3cret@i/",
            "a https://<redacted>@h/ b http://<redacted>@i/",
        ),
        ("git+ssh://git:s3cret@host/x", "git+ssh://<redacted>@host/x"),
    ],
)
def test_credentials_are_found_and_hidden(text: str, shown: str) -> None:
    assert has_credentials(text)
    assert hide_credentials(text) == shown
    assert hide_arguments([text, {"index_url": text}]) == [shown, {"index_url": shown}]
    assert "s3cret" not in without_credentials(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://host/simple",
        "git+ssh://git@host/x.git@v1",
        "https://${USER}:${TOKEN}@host/",
        "https://host/path@v1",
        "foo @ https://host/x.whl",
    ],
)
def test_text_without_credentials_stays(text: str) -> None:
    assert not has_credentials(text)
    assert hide_credentials(text) == text
