"""firewalld.* with firewall-offline-cmd over a configuration folder of the test's own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.firewalld import command
from catena.modules.shared import programs
from catena.modules.shared.command.run import run
from catena.states import firewalld
from tests.support.debian_roots import require

RULE = 'rule family="ipv4" source address="10.0.0.0/8" accept'


@pytest.fixture(autouse=True)
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the programs that were run so far, which grows."""
    if shutil.which("firewall-offline-cmd") is None:
        require("needs firewalld")
    folder = tmp_path / "firewalld"
    shutil.copytree("/etc/firewalld", folder)
    monkeypatch.setattr(command, "_BUS", tmp_path / "none")
    monkeypatch.setattr(command, "_FOLDERS", (folder,))
    found: list[list[str]] = []

    def inside(context: Context, words: list[str], *rest: Any) -> Any:
        found.append(words[1:])
        if Path(words[0]).name != "firewall-offline-cmd":
            return run(context, ["/bin/false"], *rest)  # never touch this machine's firewalld
        return run(context, [words[0], f"--system-config={folder}", *words[1:]], *rest)

    monkeypatch.setattr(programs, "run", inside)
    return found


WANTED: dict[str, Any] = {
    "ports": ["80/tcp"],
    "services": ["http"],
    "port_fwd": ["81:8081:tcp", "82:8082:udp:10.0.0.9"],
    "rich_rules": ["rule family=ipv4 source address='10.0.0.0/8' accept"],
    "sources": ["192.0.2.0/24"],
    "interfaces": ["eth7"],
    "block_icmp": ["echo-request"],
    "masquerade": True,
    "default": True,
}


def test_zone_is_configured_once(context: Context, ran: list[list[str]]) -> None:
    look = context.with_(test=True)
    with look.state_guard("built in"):
        found = firewalld.present(look, "own", **WANTED)
    assert (found.result, found.changes) == (None, {})
    assert "ports: add 80/tcp" in found.comment
    assert "own" not in context.call("firewalld.get_zones")
    found = firewalld.present(context, "own", **WANTED)
    assert found.result is True, found.comment
    assert found.changes["ports"] == {"old": [], "new": ["80/tcp"]}
    assert found.changes["rich_rules"] == {"old": [], "new": [RULE]}
    assert found.changes["masquerade"]["old"] is False
    assert found.changes["port_fwd"]["new"][1]["Destination address"] == "10.0.0.9"
    assert context.call("firewalld.default_zone") == "own"
    again = firewalld.present(context, "own", **WANTED)
    assert (again.result, again.changes) == (True, {})
    ran.clear()
    assert firewalld.present(context, "own", ports=["80/tcp"]).changes == {}
    assert ran == []  # nothing has changed since the last question


def test_prune_removes_what_is_not_listed(context: Context) -> None:
    firewalld.present(context, "own", ports=["80/tcp", "81/tcp"])
    kept = firewalld.present(context, "own", ports=["82/tcp"])
    assert kept.changes["ports"]["new"] == ["80/tcp", "81/tcp", "82/tcp"]
    pruned = firewalld.present(context, "own", ports=["82/tcp"], prune_ports=True)
    assert pruned.changes["ports"]["new"] == ["82/tcp"]
    assert context.call("firewalld.list_ports", "own") == ["82/tcp"]


def test_service_has_exactly_its_ports(context: Context) -> None:
    look = context.with_(test=True)
    with look.state_guard("built in"):
        assert firewalld.service(look, "own", ports=["80/tcp"]).result is None
    assert "own" not in context.call("firewalld.get_services")
    assert firewalld.service(context, "own", ["80/tcp", "81/udp"], ["gre"]).changes == {
        "ports": {"old": [], "new": ["80/tcp", "81/udp"]},
        "protocols": {"old": [], "new": ["gre"]},
    }
    assert firewalld.service(context, "own", ["80/tcp", "81/udp"], ["gre"]).changes == {}
    assert firewalld.service(context, "own", ["80/tcp"]).changes["ports"]["new"] == ["80/tcp"]
    assert context.call("firewalld.get_service_protocols", "own") == []


@pytest.mark.parametrize(
    "bad",
    [
        {"port": ["80/tcp"]},
        {"ports": "80/tcp"},
        {"ports": ["nonsense"]},
        {"port_fwd": ["80"]},
        {"block_icmp": ["no-such-type"]},
        {"services": ["no such service"]},
    ],
    ids=str,
)
def test_bad_argument_fails_with_a_reason(context: Context, bad: dict[str, Any]) -> None:
    found = firewalld.present(context, "public", **bad)
    assert found.result is False
    assert len(found.comment) > 20


def test_functions_need_a_running_firewalld_for_its_own_rules(context: Context) -> None:
    assert context.call("firewalld.is_running") is False
    assert context.call("firewalld.reload_rules") == "success"
    with pytest.raises(CommandExecutionError, match="firewall-cmd failed"):
        context.call("firewalld.list_ports", "public", permanent=False)
    with pytest.raises(UsageError, match="name of a zone"):
        context.call("firewalld.list_ports", "--help")


def test_rules_get_quotation_marks() -> None:
    assert firewalld.normal_rule("rule  family=ipv4 port port='1' protocol=tcp drop") == (
        'rule family="ipv4" port port="1" protocol="tcp" drop'
    )
    assert firewalld.normal_rule(RULE) == RULE
