"""Rules of nftables: built from Salt's arguments, and read from what nft lists."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.nftables import rules, ruleset

LISTED = """\
table ip filter { # handle 1
    set bad { # handle 9
        type ipv4_addr
        elements = { 10.0.0.1,
                 10.0.0.2 }
    }

    chain input { # handle 1
        type filter hook input priority filter; policy drop;
        ct state new tcp dport 22 accept # handle 3
        ct state { established, new } counter packets 5 bytes 9 drop comment "a { b" # handle 6
        tcp dport vmap { 22 : accept, 80 : drop } # handle 8
    }

    chain own { # handle 2
    }
}
table inet other { # handle 4
}
"""


def test_listing_is_read_with_handles_and_policies() -> None:
    tables = ruleset.parse(LISTED)
    assert list(tables) == [("ip", "filter"), ("inet", "other")]
    chains = tables["ip", "filter"].chains
    assert list(chains) == ["input", "own"]
    assert chains["input"].policy == "drop"
    assert chains["own"].policy is None
    assert [one.handle for one in chains["input"].rules] == ["3", "6", "8"]


def test_cut_listing_is_refused() -> None:
    with pytest.raises(CommandExecutionError, match="cut off"):
        ruleset.parse(LISTED[:300])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ct state { new } tcp dport { 22 } accept", "ct state new tcp dport 22 accept"),
        ("tcp dport { 443, 80 } drop", "tcp dport { 80, 443 } drop"),
        ("meta iifname lo accept", 'iifname "lo" accept'),
        ("counter drop", "counter packets 3 bytes 100 drop"),
        ("ct state new,established accept", "ct state established,new accept"),
        ("dport vmap { 80 : drop, 22 : accept }", "dport vmap { 22 : accept, 80 : drop }"),
    ],
)
def test_two_spellings_of_a_rule_are_equal(left: str, right: str) -> None:
    assert ruleset.normal(left) == ruleset.normal(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("tcp dport { 22, 23 } accept", "tcp dport { 22 } accept"),
        ("tcp dport 22 accept", "tcp dport 22 drop"),
        ("ip saddr 10.0.0.1 tcp dport 1", "tcp dport 1 ip saddr 10.0.0.1"),
        ('log prefix "a b"', 'log prefix "a  b"'),
        ("tcp dport { 1, 2 } accept", "tcp dport 1,2 accept"),
    ],
)
def test_two_rules_are_unequal(left: str, right: str) -> None:
    assert ruleset.normal(left) != ruleset.normal(right)


@pytest.mark.parametrize(
    ("given", "family", "expected"),
    [
        ({"connstate": "new", "proto": "tcp", "dport": 22, "sport": "1:9", "match": "state",
          "jump": "accept"},
         "ip", "ct state { new } tcp dport { 22 } tcp sport { 1-9 } accept"),
        ({"source": "2001:db8::1", "jump": "DROP"}, "inet", "ip6 saddr 2001:db8::1 drop"),
        ({"source": "10.0.0.1", "target": "own"}, "inet", "ip saddr 10.0.0.1 jump own"),
        ({"dports": "22,443,80", "proto": "tcp", "j": "accept"}, "ip",
         "tcp dport { 443, 80, 22 } accept"),
        ({"proto": "udp", "jump": "accept"}, "ip", "meta l4proto udp accept"),
        ({"jump": "redirect", "redirect-to": 8080}, "ip", "redirect to :8080"),
        ({"jump": "dnat", "to-destination": "10.0.0.1"}, "ip", "dnat to 10.0.0.1"),
        ({"jump": "reject", "reject-with": "tcp reset"}, "ip", "reject with tcp reset"),
    ],
    ids=str,
)  # fmt: skip
def test_rule_is_built(given: dict[str, Any], family: str, expected: str) -> None:
    assert rules.build(given, family) == expected


@pytest.mark.parametrize(
    "given",
    [{"dport": 1}, {"source": "a;b"}, {"source": "{ a"}, {"surce": "a"}, {"source": {}}],
    ids=str,
)
def test_rule_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rules.build(given, "ip")
