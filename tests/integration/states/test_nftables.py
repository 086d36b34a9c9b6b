"""nftables.* with the real program in a network namespace of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.shared import programs
from catena.modules.shared.command.run import run
from catena.states import nftables
from tests.support.namespaces import own_network, printed

BASE: dict[str, Any] = {"table_type": "filter", "hook": "input", "priority": 0}
PLACE: dict[str, Any] = {"table": "filter", "chain": "input"}
SSH: dict[str, Any] = {**PLACE, "proto": "tcp", "dport": 22, "connstate": "new", "jump": "accept"}


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    with own_network("nft"):
        yield


@pytest.fixture
def chain(context: Context) -> None:
    assert nftables.table_present(context, "filter").changes == {"locale": "filter"}
    assert nftables.chain_present(context, "input", **BASE).changes == {"locale": "input"}


def rules() -> list[str]:
    lines = printed("nft", "-s", "list", "chain", "ip", "filter", "input").splitlines()
    return [line.strip() for line in lines[3:-2]]


def test_table_and_chain_come_and_go_once(context: Context, chain: None) -> None:
    assert nftables.table_present(context, "filter").changes == {}
    assert nftables.chain_present(context, "input", **BASE).changes == {}
    nftables.append(context, "ssh", **SSH)
    assert nftables.chain_absent(context, "input").changes == {"locale": "input"}
    assert nftables.chain_absent(context, "input").changes == {}
    assert nftables.table_absent(context, "filter").changes == {"locale": "filter"}
    assert nftables.table_absent(context, "filter").changes == {}
    assert printed("nft", "list", "ruleset") == ""


def test_test_mode_lists_and_changes_nothing(context: Context, chain: None) -> None:
    before = printed("nft", "list", "ruleset")
    look = context.with_(test=True)
    with look.state_guard("built in"):
        results = [
            nftables.table_present(look, "other"),
            nftables.table_absent(look, "filter"),
            nftables.chain_present(look, "other"),
            nftables.chain_absent(look, "input"),
            nftables.append(look, "a", **SSH),
            nftables.insert(look, "i", **SSH),
            nftables.set_policy(look, "p", policy="drop", **PLACE),
        ]
        assert nftables.delete(look, "d", **SSH).result is True
        assert nftables.flush(look, "f", **PLACE).result is True
    assert [one.result for one in results] == [None] * 7
    assert printed("nft", "list", "ruleset") == before


@pytest.mark.parametrize(
    "rule",
    [
        {"proto": "tcp", "dports": "22,80,443", "jump": "accept"},
        {"proto": "tcp", "dports": [80, 22], "sport": "1025:65535", "jump": "ACCEPT"},
        {"proto": "udp", "jump": "drop"},
        {"if": "lo", "of": "eth0", "jump": "accept"},
        {"connstate": "new,established", "counter": "", "jump": "accept"},
        {"source": "10.0.0.0/8", "destination": "10.0.0.1", "jump": "drop", "comment": "no way"},
        {"icmp-type": "echo-request", "jump": "accept"},
        {"pkttype": "multicast", "jump": "drop"},
        {"proto": "tcp", "dport": 1, "jump": "reject", "reject-with": "tcp reset"},
        {"saddr": "{ 10.0.0.1, 10.0.0.2 }", "jump": "goto own"},
        {"saddr": "10.0.0.9", "jump": "own"},
    ],
    ids=str,
)
def test_rule_is_recognised_in_the_words_of_nft(
    context: Context, chain: None, rule: dict[str, Any]
) -> None:
    nftables.chain_present(context, "own")
    first = nftables.append(context, "r", **PLACE, **rule)
    assert (first.result, first.warnings) == (True, ())
    assert nftables.append(context, "r", **PLACE, **rule).changes == {}
    assert nftables.insert(context, "r", **PLACE, **rule).changes == {}
    assert len(rules()) == 1
    assert nftables.delete(context, "r", **PLACE, **rule).changes == {"locale": "r"}
    assert nftables.delete(context, "r", **PLACE, **rule).changes == {}
    assert rules() == []


def test_unlike_listing_is_a_warning(context: Context, chain: None) -> None:
    found = nftables.append(context, "r", **PLACE, proto="tcp", dport="ssh", jump="accept")
    assert found.changes
    assert "next run" in found.warnings[0]


def test_rule_is_inserted_at_the_beginning_or_before_a_handle(
    context: Context, chain: None
) -> None:
    nftables.append(context, "ssh", **SSH)
    nftables.insert(context, "first", **PLACE, source="10.0.0.1", jump="drop")
    text = "ct state { new } tcp dport { 22 } accept"
    handle = context.call("nftables.get_rule_handle", "filter", "input", text)["handle"]
    nftables.insert(context, "second", **PLACE, source="10.0.0.2", jump="drop", position=handle)
    assert [line[:17] for line in rules()] == [
        "ip saddr 10.0.0.1", "ip saddr 10.0.0.2", "ct state new tcp ",
    ]  # fmt: skip


def test_policy_is_set_once_and_rules_stay(context: Context, chain: None) -> None:
    nftables.append(context, "ssh", **SSH)
    assert nftables.set_policy(context, "p", policy="DROP", **PLACE).changes == {"locale": "p"}
    assert nftables.set_policy(context, "p", policy="drop", **PLACE).changes == {}
    assert len(rules()) == 1
    assert "policy drop" in printed("nft", "list", "ruleset")
    missing = nftables.set_policy(context, "p", chain="none", policy="drop")
    assert missing.result is False


def test_flush_of_an_empty_chain_changes_nothing(context: Context, chain: None) -> None:
    assert nftables.flush(context, "f", **PLACE).changes == {}
    nftables.append(context, "ssh", **SSH)
    assert nftables.flush(context, "f", **PLACE).changes == {"locale": "f"}
    assert rules() == []
    assert nftables.flush(context, "f", table="none").result is False
    assert nftables.flush(context, "f", table="none", ignore_absence=True).result is True


def test_rules_are_saved_when_the_file_differs(
    context: Context, chain: None, tmp_path: Path
) -> None:
    path = tmp_path / "rules.nft"
    rule = {**SSH, "save": str(path)}
    assert nftables.append(context, "ssh", **rule).changes
    saved = path.read_text()
    assert "tcp dport 22 accept" in saved
    inode = path.stat().st_ino
    nftables.append(context, "ssh", **rule)
    assert path.stat().st_ino == inode
    nftables.table_present(context, "other", family="inet")
    assert nftables.append(context.with_(test=True), "ssh", **rule).result is None
    assert path.read_text() == saved
    assert nftables.append(context, "ssh", **rule).result is True
    assert "table inet other" in path.read_text()
    printed("nft", "-f", str(path))
    assert len(rules()) == 1


def test_unchanged_rules_are_listed_once(
    context: Context, chain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = range(1000, 1020)
    for port in ports:
        assert nftables.append(context, f"p{port}", **{**SSH, "dport": port}).changes
    ran: list[list[str]] = []

    def noting(context: Context, words: list[str], *rest: Any) -> Any:
        ran.append(words[1:])
        return run(context, words, *rest)

    monkeypatch.setattr(programs, "run", noting)
    fresh = context.with_(scratch={})
    for port in ports:
        assert nftables.append(fresh, f"p{port}", **{**SSH, "dport": port}).changes == {}
    assert ran == [["-a", "-s", "list", "ruleset"]]


@pytest.mark.parametrize(
    "bad",
    [
        {**PLACE, "dport": 22, "jump": "accept"},
        {**PLACE, "source": "10.0.0.1; flush ruleset", "jump": "accept"},
        {**PLACE, "sorce": "10.0.0.1", "jump": "accept"},
        {**PLACE, "source": "nonsense address", "jump": "accept"},
        {"table": "filter", "jump": "accept"},
        {"table": "none", "chain": "input", "jump": "accept"},
    ],
    ids=str,
)
def test_bad_rule_fails_with_a_reason(context: Context, chain: None, bad: dict[str, Any]) -> None:
    nftables.append(context, "ssh", **SSH)
    found = nftables.append(context, "bad", **bad)
    assert found.result is False
    assert len(found.comment) > 40
    assert len(rules()) == 1


def test_functions_show_the_rules(context: Context, chain: None) -> None:
    nftables.append(context, "ssh", **SSH)
    assert context.call("nftables.version").startswith("v")
    assert context.call("nftables.list_tables")[0]["name"] == "filter"
    assert "tcp dport 22" in context.call("nftables.get_rules")[0]
    assert any("rule" in one for one in context.call("nftables.get_rules_json"))
    assert context.call("nftables.get_policy", "filter", "input") == "accept"
    with pytest.raises(UsageError, match="did you mean 'ipv"):
        context.call("nftables.get_rules", "ipv5")
    with pytest.raises(CommandExecutionError, match="nft failed"):
        context.call("nftables.delete", "filter", "input", position=999)
