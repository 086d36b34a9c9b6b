from __future__ import annotations

import pytest

from catena.core.nested import traverse
from catena.core.target import Nodegroups, Subject, TargetError, parse

WEB = Subject(
    "web1.example.org",
    {
        "id": "web1.example.org",
        "os": "Debian",
        "osmajorrelease": 12,
        "roles": ["web", "cache"],
        "ipv4": ["127.0.0.1", "10.1.2.3"],
        "ipv6": ["::1", "fe80::1"],
        "ec2": {"tags": {"env:kind": "prod"}, "zone": "eu-1"},
        "disks": [{"name": "sda"}, {"name": "sdb"}],
        "path": "a:b",
    },
    {"app": {"port": 80, "name": "Shop"}},
)
GROUPS: Nodegroups = {
    "web": "web* and G@os:Debian",
    "all": ["N@web", "or", "db*"],
    "names": "db1 web1.example.org",
    "listed": ["db1", "web1.example.org"],
    "numbered": "web[0-9]",
    "loop": "N@pool",
    "pool": "not N@loop",
}


def meant(expression: str, kind: str = "compound") -> bool:
    return parse(expression, kind, GROUPS).matches(WEB)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("glob", "web*"),
        ("glob", "web[0-9].example.org"),
        ("glob", "*"),
        ("pcre", r"web\d\."),
        ("list", "db1, web1.example.org"),
        ("grain", "os:debian"),
        ("grain", "os:D*"),
        ("grain", "osmajorrelease:12"),
        ("grain", "roles:cache"),
        ("grain", "ec2:zone:eu-*"),
        ("grain", "ec2:tags:env:kind:prod"),
        ("grain", "ec2:*:eu-1"),
        ("grain", "ec2:zone"),
        ("grain", "disks:name:sdb"),
        ("grain", "path:a:b"),
        ("grain_pcre", "os:(debian|ubuntu)"),
        ("grain_pcre", "ec2:zo.e"),
        ("grain", "ec2:z*"),
        ("pillar", "app:port:80"),
        ("pillar_pcre", "app:name:sh.p"),
        ("pillar_exact", "app:name:shop"),
        ("ipcidr", "10.1.0.0/16"),
        ("ipcidr", "10.1.2.3"),
        ("ipcidr", "fe80::/10"),
        ("nodegroup", "web"),
        ("nodegroup", "all"),
        ("nodegroup", "names"),
        ("nodegroup", "listed"),
        ("nodegroup", "numbered"),
    ],
)
def test_target_expression_matches_its_minion(kind: str, expression: str) -> None:
    assert meant(expression, kind)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("glob", "web"),
        ("glob", "WEB*"),
        ("pcre", "eb1"),
        ("list", "web1,web*"),
        ("grain", "os:Ubuntu"),
        ("grain", "nosuch:x"),
        ("grain", "roles:we"),
        ("grain", "ec2:zone:us-*"),
        ("pillar_exact", "app:name:sh*"),
        ("pillar", "app:port:8"),
        ("ipcidr", "10.2.0.0/16"),
    ],
)
def test_target_expression_does_not_match_another_minion(kind: str, expression: str) -> None:
    assert not meant(expression, kind)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("web* and G@os:Debian", True),
        ("db* or web*", True),
        ("not web*", False),
        ("web* not db*", True),
        ("db* and web* or web*", True),
        ("web* or web* and db*", True),
        ("( web* or db* ) and not G@os:Debian", False),
        ("( web* or db* ) and ( G@roles:web )", True),
        ("G|@ec2|zone|eu-1 and S@10.0.0.0/8", True),
        ("L@db1,web1.example.org", True),
        (r"E@(web|db)\d.* and P@os:(De|Ub).*", True),
        ("I@app:port:80 and J@app:name:s.*", True),
        ("N@web and not N@web", False),
    ],
)
def test_compound_target_combines_with_and_or_not_and_parentheses(
    expression: str, expected: bool
) -> None:
    assert meant(expression) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "web* and",
        "or web*",
        "web* db*",
        "( web*",
        "web* )",
        "not",
        "X@a",
        "G@os",
        "G@",
        "()",
        "not not web*",
        "(web* or db*)",
    ],
)
def test_malformed_target_expression_is_an_error(expression: str) -> None:
    with pytest.raises(TargetError):
        parse(expression, "compound", GROUPS)


def test_nodegroup_that_contains_itself_is_refused() -> None:
    with pytest.raises(TargetError, match="'loop' contains itself: loop > pool > loop"):
        parse("loop", "nodegroup", GROUPS)


def test_unknown_nodegroup_or_target_type_is_reported_with_the_nearest() -> None:
    with pytest.raises(TargetError, match="did you mean 'web'"):
        parse("wbe", "nodegroup", GROUPS)
    with pytest.raises(TargetError, match="did you mean 'grain'"):
        parse("x", "grian")


@pytest.mark.parametrize("kind", ["glob", "compound", "list", "grain", "nodegroup"])
@pytest.mark.parametrize("expression", ["", "  "])
def test_empty_target_matches_no_minion(kind: str, expression: str) -> None:
    assert not meant(expression, kind)


def test_only_a_list_target_names_its_ids() -> None:
    assert parse(["a", "b"], "list").ids == ("a", "b")
    assert parse("a*").ids is None


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("pcre", "("),
        ("pcre", "a" * 1025),
        ("grain_pcre", "os:("),
        ("ipcidr", "10.0.0.0/33"),
        ("ipcidr", "10.0.0.1/24"),
        ("glob", "x" * 70_000),
        ("compound", "( " * 60 + "a" + " )" * 60),
        ("compound", "a or " * 5000 + "a"),
    ],
)
def test_oversized_or_invalid_pattern_is_an_error(kind: str, expression: str) -> None:
    with pytest.raises(TargetError):
        parse(expression, kind)


def test_traverse_walks_mappings_lists_and_numbers() -> None:
    data = {"a": {"b": [1, {"c": 2}]}, 8: "eight"}
    assert traverse(data, "a:b:1:c") == 2
    assert traverse(data, "a:b:c") == 2
    assert traverse(data, "a:b:-2") == 1
    assert traverse(data, "8") == "eight"
    assert traverse(data, "a:x", "no") == "no"
    assert traverse(data, "a/b/0", delimiter="/") == 1


def test_delimiter_can_be_changed_for_keys_with_colons() -> None:
    subject = Subject("m", {"a": {"b:c": "d"}})
    assert parse("a|b:c|d", "grain", delimiter="|").matches(subject)
    assert not parse("a:b", "grain").matches(Subject("m", {"a": None}))
