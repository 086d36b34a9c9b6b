"""ipset.* with the real program in a network namespace of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.states import ipset
from tests.support.namespaces import own_network, printed


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    with own_network("ipset"):
        yield


def test_set_comes_and_goes_once(context: Context) -> None:
    look = context.with_(test=True)
    with look.state_guard("built in"):
        assert ipset.set_present(look, "own", "hash:ip").result is None
    made = ipset.set_present(context, "own", "hash:ip", comment=True, timeout=600)
    assert made.changes == {"locale": "own"}
    assert ipset.set_present(context, "own", "hash:ip").changes == {}
    ipset.present(context, "e", "10.0.0.1", set_name="own")
    with look.state_guard("built in"):
        assert ipset.set_absent(look, "own").result is None
    assert ipset.set_absent(context, "own").changes == {"locale": "own"}
    assert ipset.set_absent(context, "own").changes == {}
    assert printed("ipset", "save") == ""


@pytest.mark.parametrize(
    ("kind", "family", "entry", "options"),
    [
        ("hash:ip", "ipv4", "10.0.0.1", {}),
        ("hash:ip", "ipv4", ["10.0.0.1", "10.0.0.2"], {"comment": "a word"}),
        ("hash:ip", "ipv4", "10.0.0.1-10.0.0.9", {}),
        ("hash:ip", "ipv4", "10.0.0.0/29", {}),
        ("hash:net", "ipv4", "10.1.2.3/8", {}),
        ("hash:net", "ipv4", "10.0.0.1/32", {}),
        ("hash:net", "ipv4", "10.0.0.0-10.0.0.2", {}),
        ("hash:ip,port", "ipv4", "10.0.0.1,tcp:80", {}),
        ("hash:ip", "ipv6", "2001:DB8::1", {}),
        ("hash:net", "ipv6", "2001:db8::/32", {"timeout": 500}),
    ],
)
def test_entry_is_added_and_removed_once(
    context: Context, kind: str, family: str, entry: Any, options: dict[str, Any]
) -> None:
    ipset.set_present(context, "own", kind, family, comment=True, timeout=600)
    given: dict[str, Any] = {"set_name": "own", "family": family}
    look = context.with_(test=True)
    with look.state_guard("built in"):
        assert ipset.present(look, "e", entry, **given, **options).result is None
        assert ipset.absent(look, "e", entry, **given).result is True
    added = ipset.present(context, "e", entry, **given, **options)
    assert (added.result, added.changes) == (True, {"locale": "e"}), added.comment
    assert ipset.present(context, "e", entry, **given, **options).changes == {}
    with look.state_guard("built in"):
        assert ipset.absent(look, "e", entry, **given).result is None
    assert ipset.absent(context, "e", entry, **given).changes == {"locale": "e"}
    assert ipset.absent(context, "e", entry, **given).changes == {}


def test_address_within_a_network_is_no_entry(context: Context) -> None:
    ipset.set_present(context, "own", "hash:net")
    ipset.present(context, "e", "10.0.0.0/8", set_name="own")
    assert context.call("ipset.test", "own", "10.0.0.1") is True
    assert context.call("ipset.check", "own", "10.0.0.1") is False


def test_flush_of_an_empty_set_changes_nothing(context: Context) -> None:
    assert "does not exist" in ipset.flush(context, "own").comment
    ipset.set_present(context, "own", "hash:ip")
    assert ipset.flush(context, "own").changes == {}
    ipset.present(context, "e", "10.0.0.1", set_name="own")
    assert ipset.flush(context.with_(test=True), "own").result is None
    assert ipset.flush(context, "own").changes == {"locale": "own"}


def test_bad_arguments_fail_with_a_reason(context: Context) -> None:
    ipset.set_present(context, "own", "hash:ip")
    assert "does not exist" in ipset.present(context, "e", "10.0.0.1", set_name="none").comment
    assert "`set_name` is missing" in ipset.present(context, "e", "10.0.0.1").comment
    assert ipset.present(context, "e", "nonsense", set_name="own").result is False
    assert ipset.present(context, "e", "-exist", set_name="own").result is False
    assert ipset.set_present(context, "x", "no:such").result is False
    with pytest.raises(UsageError, match="name of a set"):
        context.call("ipset.new_set", "--help", "hash:ip")
    with pytest.raises(CommandExecutionError, match="ipset failed"):
        context.call("ipset.rename_set", "none", "other")
    assert context.call("ipset.list_sets")[0]["Type"] == "hash:ip"
    assert context.call("ipset.version").startswith("v")
