"""What minions may ask the master to call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.errors import ConfigError
from catena.core.peer import PeerCall, PeerKind
from catena.master.requests.peer_rights import PeerRules, parse, refusal

RULES = {
    "peer": {"web[0-9]": ["test\\.ping", "network\\..*"], "db1": ".*"},
    "peer_run": {"web1": ["manage\\.up"]},
}


def rules(**settings: Any) -> PeerRules:
    return parse(replace(MasterSettings(), **settings))


def call(fun: str, kind: PeerKind = PeerKind.publish) -> PeerCall:
    return PeerCall(kind, fun, tgt="*")


@pytest.mark.parametrize("kind", list(PeerKind))
def test_nothing_is_allowed_by_default(kind: PeerKind) -> None:
    assert "does not allow it" in refusal(rules(), "web1", call("test.ping", kind))


@pytest.mark.parametrize(
    ("minion", "fun", "kind", "allowed"),
    [
        ("web1", "test.ping", PeerKind.publish, True),
        ("web1", "network.ip_addrs", PeerKind.publish, True),
        ("db1", "cmd.run", PeerKind.publish, True),
        ("web1", "manage.up", PeerKind.runner, True),
        ("web1", "test.pingx", PeerKind.publish, False),
        ("web10", "test.ping", PeerKind.publish, False),
        ("xweb1", "test.ping", PeerKind.publish, False),
        ("web1", "cmd.run", PeerKind.publish, False),
        ("web1", "manage.up", PeerKind.publish, False),
        ("web2", "manage.up", PeerKind.runner, False),
        ("web1", "manage.up", PeerKind.wheel, False),
        ("db1", "key.accept", PeerKind.wheel, False),
        # A published publish could go round for ever, and would lend the other minion's rights.
        ("db1", "publish.publish", PeerKind.publish, False),
        ("db1", "publish.runner", PeerKind.publish, False),
        ("db1", "saltutil.runner", PeerKind.publish, False),
        ("db1", "saltutil.wheel", PeerKind.publish, False),
    ],
)
def test_rules_match_whole_ids_and_whole_names(
    minion: str, fun: str, kind: PeerKind, allowed: bool
) -> None:
    assert (refusal(rules(**RULES), minion, call(fun, kind)) == "") is allowed


def test_wheel_needs_a_setting_of_its_own() -> None:
    allowed = rules(peer_wheel={"admin": ["key\\.accept"]})
    assert refusal(allowed, "admin", call("key.accept", PeerKind.wheel)) == ""
    assert refusal(allowed, "admin", call("key.delete", PeerKind.wheel))
    assert refusal(allowed, "admin", call("key.accept", PeerKind.runner))


@pytest.mark.parametrize(
    ("setting", "given", "message"),
    [
        ("peer", {"web1": {"test.ping": []}}, "peer: web1: must be a list"),
        ("peer", {"web1": [["test.ping"]]}, "peer: web1: must be a list"),
        ("peer_run", {"(": ["x"]}, "peer_run: '\\(' is no regular expression"),
        ("peer_wheel", {"web1": ["*"]}, "peer_wheel: '\\*' is no regular expression"),
    ],
)
def test_malformed_rule_is_an_error_that_names_the_setting(
    setting: str, given: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        rules(**{setting: given})
