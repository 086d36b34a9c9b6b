"""iptables.* with the real programs in a network namespace of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.shared import programs
from catena.modules.shared.command.run import run
from catena.states import iptables
from tests.support.namespaces import own_network, printed


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    with own_network("iptables", "ip6tables"):
        yield


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the programs that were run so far, which grows."""
    found: list[list[str]] = []
    real = run

    def noting(context: Context, words: list[str], *rest: Any) -> Any:
        found.append([Path(words[0]).name, *words[1:]])
        return real(context, words, *rest)

    monkeypatch.setattr(programs, "run", noting)
    return found


def rules(chain: str = "INPUT") -> list[str]:
    lines = printed("iptables-save").splitlines()
    return [line for line in lines if line.startswith(f"-A {chain} ")]


SSH: dict[str, Any] = {
    "chain": "INPUT", "proto": "tcp", "dport": 22, "connstate": "NEW", "jump": "ACCEPT",
}  # fmt: skip


def test_rule_is_appended_once(context: Context) -> None:
    first = iptables.append(context, "ssh", **SSH)
    assert (first.result, first.changes) == (True, {"locale": "ssh"})
    shown = "-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT"
    assert rules() == [shown]
    again = iptables.append(context, "ssh", **SSH)
    assert (again.result, again.changes) == (True, {})
    assert rules() == [shown]


def test_test_mode_lists_and_changes_nothing(context: Context) -> None:
    look = context.with_(test=True)
    with look.state_guard("built in"):
        found = iptables.append(look, "ssh", **SSH)
        policy = iptables.set_policy(look, "p", chain="FORWARD", policy="DROP")
        chain = iptables.chain_present(look, "OWN")
    assert [found.result, policy.result, chain.result] == [None, None, None]
    assert "-A INPUT  -p tcp -m state --state NEW --dport 22 --jump ACCEPT" in found.comment
    assert printed("iptables-save") == ""


def test_unchanged_rules_are_listed_once(context: Context, ran: list[list[str]]) -> None:
    ports = range(1000, 1050)
    for port in ports:
        assert iptables.append(context, f"p{port}", **{**SSH, "dport": port}).changes
    ran.clear()
    fresh = context.with_(scratch={})
    for port in ports:
        assert iptables.append(fresh, f"p{port}", **{**SSH, "dport": port}).changes == {}
    assert ran == [["iptables-save"]]


def test_change_by_another_program_is_seen(context: Context) -> None:
    assert iptables.append(context, "ssh", **SSH).changes
    printed("iptables", "-F", "INPUT")
    assert iptables.append(context, "ssh", **SSH).changes
    assert len(rules()) == 1


@pytest.mark.parametrize(
    "rule",
    [
        {"source": "10.1.2.3/8", "jump": "DROP"},
        {"source": "!10.0.0.1", "jump": "DROP"},
        {"proto": "tcp", "dports": [80, 443], "jump": "ACCEPT"},
        {"proto": "tcp", "dports": "!80,443", "jump": "ACCEPT"},
        {"match": "conntrack", "ctstate": "RELATED,ESTABLISHED", "jump": "ACCEPT"},
        {"match": ["tcp", "comment"], "proto": "tcp", "comment": 'a "quoted" word', "dport": 1},
        {"jump": "REJECT"},
        {"jump": "LOG", "log-prefix": "seen it: ", "log-level": 6},
        {"match": "limit", "limit": "5/minute", "limit-burst": 3, "jump": "RETURN"},
        {"i": "lo", "jump": "ACCEPT"},
        {"if": "eth+", "proto": "icmp", "icmp-type": "echo-request", "jump": "ACCEPT"},
        {"source": "0.0.0.0/0", "jump": "ACCEPT"},
        {"proto": "tcp", "dport": "ssh", "jump": "ACCEPT"},
        {"proto": "tcp", "tcp-flags": "SYN,RST SYN", "match": "tcp", "jump": "ACCEPT"},
    ],
    ids=str,
)  # fmt: skip
def test_rule_in_any_spelling_is_recognised(context: Context, rule: dict[str, Any]) -> None:
    assert iptables.append(context, "r", chain="INPUT", **rule).result is True
    assert iptables.append(context, "r", chain="INPUT", **rule).changes == {}
    assert len(rules()) == 1
    assert iptables.delete(context, "r", chain="INPUT", **rule).changes == {"locale": "r"}
    assert rules() == []
    assert iptables.delete(context, "r", chain="INPUT", **rule).changes == {}


def test_rule_is_inserted_at_its_position(context: Context) -> None:
    for port in (1, 2, 3):
        iptables.append(context, "a", **{**SSH, "dport": port})
    iptables.insert(context, "b", position=1, chain="INPUT", i="lo", jump="ACCEPT")
    assert rules()[0] == "-A INPUT -i lo -j ACCEPT"
    missing = iptables.insert(context, "d", **SSH)
    assert missing.result is False
    assert "`position` is missing" in missing.comment


def test_negative_position_counts_from_the_end(context: Context) -> None:
    for port in (1, 2):
        iptables.append(context, "a", **{**SSH, "dport": port})
    lo = {"chain": "INPUT", "i": "lo", "jump": "ACCEPT"}
    assert iptables.insert(context, "b", position=-1, **lo).changes
    assert rules()[1] == "-A INPUT -i lo -j ACCEPT"
    assert iptables.insert(context, "b", position=-1, **lo).changes == {}


def test_chain_comes_and_goes_with_its_rules(context: Context) -> None:
    assert iptables.chain_present(context, "OWN").changes == {"locale": "OWN"}
    assert iptables.chain_present(context, "OWN").changes == {}
    iptables.append(context, "r", chain="OWN", jump="DROP")
    assert iptables.chain_absent(context, "OWN").changes == {"locale": "OWN"}
    assert iptables.chain_absent(context, "OWN").changes == {}


def test_flush_of_an_empty_chain_changes_nothing(context: Context) -> None:
    iptables.append(context, "ssh", **SSH)
    assert iptables.flush(context, "f", chain="OUTPUT").changes == {}
    assert iptables.flush(context, "f", chain="INPUT").changes == {"locale": "f"}
    assert iptables.flush(context, "f").changes == {}
    assert rules() == []


def test_policy_is_set_once(context: Context) -> None:
    assert iptables.set_policy(context, "p", chain="FORWARD", policy="DROP").changes
    assert iptables.set_policy(context, "p", chain="FORWARD", policy="DROP").changes == {}
    wrong = iptables.set_policy(context, "p", chain="FORWARD", policy="MAYBE")
    assert wrong.result is False
    assert "MAYBE" in wrong.comment


def test_rules_are_saved_when_the_file_differs(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "etc" / "rules.v4"
    rule = {**SSH, "save": str(path)}
    look = context.with_(test=True)
    assert iptables.append(context, "ssh", **rule).result is True
    assert "-A INPUT -p tcp" in path.read_text()
    inode = path.stat().st_ino
    assert iptables.append(context, "ssh", **rule).comment.count("\n") == 0
    assert path.stat().st_ino == inode
    assert iptables.append(look, "ssh", **rule).result is True
    printed("iptables", "-A", "OUTPUT", "-j", "ACCEPT")
    assert iptables.append(look, "ssh", **rule).result is None
    assert path.stat().st_ino == inode
    assert "Saved iptables rule ssh" in iptables.append(context, "ssh", **rule).comment
    assert "-A OUTPUT -j ACCEPT" in path.read_text()


def test_save_filters_leave_rules_out(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "rules"
    context = context.with_(opts={**context.opts, "iptables.save_filters": ["DOCKER"]})
    printed("iptables", "-A", "OUTPUT", "-m", "comment", "--comment", "DOCKER", "-j", "ACCEPT")
    iptables.append(context, "ssh", save=str(path), **SSH)
    assert "DOCKER" not in path.read_text()
    assert "Saved" not in iptables.append(context, "ssh", save=str(path), **SSH).comment


def test_rules_of_an_aggregate_are_reported_together(context: Context, tmp_path: Path) -> None:
    path = str(tmp_path / "rules")
    one = {"state": "iptables", "fun": "append", "__id__": "a", "name": "a", "order": 1, **SSH}
    two = {**one, "__id__": "b", "name": "b", "dport": 80, "save": path}
    low = iptables.mod_aggregate(context, dict(one, __agg__=True), [two], {})
    assert two["__agg__"] is True
    given = {k: v for k, v in low.items() if k in ("rules", *SSH)}
    found = iptables.append(context, "a", **given)
    assert found.changes == {"locale": ["a", "b"]}
    assert len(rules()) == 2
    assert Path(path).exists()
    assert iptables.append(context, "a", **given).changes == {}


def test_ipv6_has_rules_of_its_own(context: Context) -> None:
    rule = {"chain": "INPUT", "source": "2001:DB8::1", "jump": "DROP", "family": "ipv6"}
    assert iptables.append(context, "r", **rule).changes
    assert iptables.append(context, "r", **rule).changes == {}
    assert rules() == []
    assert "-s 2001:db8::1/128 -j DROP" in printed("ip6tables-save")


def test_get_rules_shows_options_by_their_long_names(context: Context) -> None:
    iptables.append(context, "r", chain="INPUT", proto="udp", dport=53, source="!10.0.0.0/8",
                    comment="my rule", jump="DROP")  # fmt: skip
    chain = context.call("iptables.get_rules")["filter"]["INPUT"]
    assert chain["policy"] == "ACCEPT"
    (rule,) = chain["rules"]
    assert rule["source"] == ["! 10.0.0.0/8"]
    assert rule["destination_port"] == ["53"]
    assert rule["comment"] == ["my rule"]
    assert chain["rules_comment"] == {"my rule": rule}


@pytest.mark.parametrize(
    "bad",
    [
        {"chain": "INPUT", "proto": "tcp", "dport": "nosuchport", "jump": "ACCEPT"},
        {"chain": "INPUT", "nosuchoption": "1", "jump": "ACCEPT"},
        {"chain": "IN PUT", "jump": "ACCEPT"},
        {"chain": "INPUT", "jump": "ACCEPT", "comment": "two\nlines"},
        {"chain": "INPUT", "dports": [1, 2], "jump": "ACCEPT"},
        {"chain": "INPUT", "jump": "ACCEPT", "source": "'"},
        {"jump": "ACCEPT"},
    ],
    ids=str,
)
def test_bad_rule_fails_with_a_reason(context: Context, bad: dict[str, Any]) -> None:
    iptables.append(context, "ssh", **SSH)  # creates the chain
    found = iptables.append(context, "bad", **bad)
    assert found.result is False
    assert len(found.comment) > 40
    assert iptables.delete(context, "bad", **bad).result is False
    assert len(rules()) == 1


def test_functions_refuse_what_makes_no_sense(context: Context) -> None:
    with pytest.raises(UsageError, match="did you mean 'filter'"):
        context.call("iptables.check", "filer", "INPUT", "-j ACCEPT")
    with pytest.raises(UsageError, match="not both"):
        context.call("iptables.delete", "filter", "INPUT", 1, "-j ACCEPT")
    with pytest.raises(CommandExecutionError, match="iptables failed"):
        context.call("iptables.delete_chain", "filter", "NONE")
    assert context.call("iptables.version").startswith("v1.")
