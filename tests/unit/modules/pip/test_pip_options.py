"""The command line and the environment of pip install."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import UsageError
from catena.modules.pip.options import PipInstallOptions, command_line, targets

SECRET = "https://u:s3cret@host/simple"


def test_addresses_are_no_arguments() -> None:
    found = command_line(
        PipInstallOptions(
            index_url=SECRET, extra_index_url=[SECRET, "http://b/"], proxy="http://u:s3cret@p:1",
            find_links=[SECRET, "/srv/with space"],
            extra_args=[{"--trusted-host": "h"}, {"--pypi-url": SECRET}, f"--other={SECRET}"],
        )
    )  # fmt: skip
    assert found.words == ("--find-links=/srv/with space", "--trusted-host=h")
    assert found.env == {
        "PIP_INDEX_URL": SECRET,
        "PIP_EXTRA_INDEX_URL": f"{SECRET} http://b/",
        "PIP_FIND_LINKS": SECRET,
        "PIP_PROXY": "http://u:s3cret@p:1",
        "PIP_PYPI_URL": SECRET,
        "PIP_OTHER": SECRET,
    }


def test_options_become_words() -> None:
    found = command_line(
        PipInstallOptions(
            upgrade=True, no_deps=True, pre_releases=True, timeout=5, target="-x",
            global_options="a,b", no_binary=["x", "y"], download_cache="/c", exists_action="i",
        )
    )  # fmt: skip
    assert found.words == (
        "--upgrade", "--no-deps", "--pre", "--timeout=5", "--target=-x", "--exists-action=i",
        "--global-option=a", "--global-option=b", "--no-binary=x,y", "--cache-dir=/c",
    )  # fmt: skip
    assert found.env == {}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": 1.5}, "'1.5' is not a valid timeout"),
        ({"exists_action": "x"}, "only supports the values s, i, w, and b"),
        ({"no_index": True, "index_url": "http://x/"}, "mutually exclusive"),
        ({"mirrors": "http://x/"}, "does not support mirror argument"),
        ({"index_url": "u:s3cret@host"}, "is not a valid URL"),
        ({"index_url": "ext://u:s3cret@host"}, "'ext://<redacted>@host' is not a valid URL"),
        ({"target": ["a"]}, "target must be a text, not list"),
        ({"extra_args": [{"--a": {"b": 1}}]}, "Too many levels in: --a"),
        ({"extra_args": ["--index-url", SECRET]}, "must follow its option"),
    ],
)
def test_senseless_option_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as found:
        command_line(PipInstallOptions(**options))
    assert "s3cret@" not in str(found.value) or "valid URL" in told


def test_requirements_with_credentials_go_to_a_private_file() -> None:
    found = targets(["a>=1", f"b @ {SECRET}/b.whl"], ["/srv/c", f"git+{SECRET}#egg=d"])
    assert found.words == ("a>=1", "--editable=/srv/c")
    assert found.private == (f"b @ {SECRET}/b.whl", f"--editable git+{SECRET}#egg=d")


@pytest.mark.parametrize("entry", ["git+https://host/x", "-r x", "a\nb"])
def test_senseless_editable_is_refused(entry: str) -> None:
    with pytest.raises(UsageError):
        targets(None, [entry])
