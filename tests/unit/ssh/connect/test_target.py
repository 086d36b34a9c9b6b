"""Grammar of SSH targets, and injections that it refuses."""

from __future__ import annotations

import pytest

from catena.core.errors import UsageError
from catena.ssh.connect.target import (
    SshTarget,
    direct_target,
    host_name,
    port_number,
    python_path,
    remote_path,
    search_path,
    user_name,
)
from tests.support.injections import INJECTIONS


@pytest.mark.parametrize("text", INJECTIONS)
@pytest.mark.parametrize("parse", [host_name, user_name, remote_path, python_path, port_number])
def test_injections_into_a_target_are_refused(parse: object, text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["$(id)", "`id`:$PATH", "$PATH;id", "$HOME/bin", "a b", "$PATHX$"]
)
def test_search_path_has_no_variable_but_path(text: str) -> None:
    with pytest.raises(UsageError):
        search_path(text)


def test_search_path_may_extend_the_hosts_own() -> None:
    assert search_path("$PATH:/usr/local/bin") == "$PATH:/usr/local/bin"


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("root@web1", "root", "web1", None),
        ("web1:2222", "", "web1", 2222),
        ("me@10.0.0.1:22", "me", "10.0.0.1", 22),
        ("me@[fe80::1%eth0]:2222", "me", "fe80::1%eth0", 2222),
        ("dom.user@host.example", "dom.user", "host.example", None),
    ],
)
def test_host_with_a_user_or_a_port_is_a_target(
    text: str, user: str, host: str, port: int | None
) -> None:
    found = direct_target(text)
    assert found is not None
    assert (found.user, found.host, found.port) == (user, host, port)


@pytest.mark.parametrize("text", ["web1", "*", "web*", "web[12]"])
def test_plain_name_is_no_direct_target(text: str) -> None:
    assert direct_target(text) is None


@pytest.mark.parametrize(
    "text", ["a@b@c", "-oProxyCommand=x@host", "root@", "root@-x", "a;b@host", "host:99999", "-v"]
)
def test_malformed_target_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        direct_target(text)


def test_secrets_are_not_part_of_what_a_log_shows() -> None:
    target = SshTarget("a", "b", password="hunter2", private_key_password="hunter3")  # type: ignore[arg-type]
    assert "hunter" not in repr(target)
