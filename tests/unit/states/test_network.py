"""network.* with the files of ifupdown in a folder and doubles of ifup and ifdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import FunctionMark, Registry
from catena.modules.ifupdown import functions as module
from catena.modules.ifupdown import stanzas
from catena.modules.shared import programs
from catena.states import network
from tests.unit.states.conftest import MakeWorld

FILE = """\
# My comment
source /etc/network/interfaces.d/*

auto lo eth9
iface lo inet loopback

# about eth1
iface eth1 inet static
    address 10.9.9.9
    # inside

iface eth9 inet manual
"""
STATIC: dict[str, Any] = {
    "proto": "static", "ipaddr": "10.0.0.2", "netmask": "255.255.255.0", "gateway": "10.0.0.1",
    "dns": ["10.0.0.53", "10.0.0.54"], "mtu": 1400, "up_cmds": ["echo up", "echo two"],
}  # fmt: skip


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Lay the files; return the programs that were run so far, which grows."""
    (tmp_path / "network" / "interfaces.d").mkdir(parents=True)
    (tmp_path / "network" / "interfaces").write_text(FILE)
    (tmp_path / "hostname").write_text("old\n")
    (tmp_path / "resolv.conf").write_text("nameserver 10.0.0.53\n")
    for name, path in (("_FOLDER", "network"), ("_SETTINGS", "default/networking"),
                       ("_HOSTNAME", "hostname"), ("_RESOLV", "resolv.conf")):  # fmt: skip
        monkeypatch.setattr(module, name, tmp_path / path)
    found: list[list[str]] = []

    def need(context: Any, words: list[str], package: str, **options: Any) -> str:
        assert package == "ifupdown"
        found.append(words)
        return ""

    monkeypatch.setattr(programs, "need", need)
    return found


@pytest.fixture
def context(world: MakeWorld, ran: list[list[str]]) -> Context:
    made = world(grains={"os_family": "Debian"}).context
    return made.with_(functions=Registry("function", modules.INDEX, FunctionMark))


def text(tmp_path: Path) -> str:
    return (tmp_path / "network" / "interfaces").read_text()


def test_interface_is_added_once(context: Context, tmp_path: Path) -> None:
    look = context.with_(test=True)
    given = {**STATIC, "noifupdown": True}
    assert network.managed(look, "eth0", **given).comment == "Interface eth0 is set to be added."
    assert text(tmp_path) == FILE
    added = network.managed(context, "eth0", **given)
    assert added.changes == {"interface": "Added network interface."}
    assert text(tmp_path) == FILE + (
        "\nauto eth0\niface eth0 inet static\n    address 10.0.0.2\n    netmask 255.255.255.0\n"
        "    gateway 10.0.0.1\n    mtu 1400\n    dns-nameservers 10.0.0.53 10.0.0.54\n"
        "    up echo up\n    up echo two\n"
    )
    assert network.managed(context, "eth0", **given).changes == {}
    assert network.managed(look, "eth0", **given).result is True


def test_interface_is_changed_in_its_place(context: Context, tmp_path: Path) -> None:
    given: dict[str, Any] = {"proto": "dhcp", "enabled": False, "noifupdown": True}
    look = network.managed(context.with_(test=True), "eth1", **given)
    assert look.result is None
    assert "-iface eth1 inet static" in look.comment
    assert (
        "+iface eth1 inet dhcp" in network.managed(context, "eth1", **given).changes["interface"]
    )
    assert network.managed(context, "eth1", **given).changes == {}
    assert "# about eth1\niface eth1 inet dhcp\n\niface eth9" in text(tmp_path)
    network.managed(context, "eth9", proto="manual", enabled=False, noifupdown=True)
    assert "auto lo\niface lo inet loopback" in text(tmp_path)


def test_sourced_file_is_changed_where_it_has_the_interface(
    context: Context, tmp_path: Path
) -> None:
    path = tmp_path / "network" / "interfaces.d" / "own"
    path.write_text("auto eth5\niface eth5 inet dhcp\n")
    network.managed(context, "eth5", proto="manual", noifupdown=True)
    assert path.read_text() == "auto eth5\niface eth5 inet manual\n"
    assert text(tmp_path) == FILE


def test_interface_is_restarted_when_it_changes(
    context: Context, ran: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = tmp_path / "devices" / "eth0" / "flags"
    flags.parent.mkdir(parents=True)
    flags.write_text("0x1002\n")
    monkeypatch.setattr(module, "_DEVICES", tmp_path / "devices")
    real = programs.need

    def need(context: Any, words: list[str], package: str, **options: Any) -> str:
        flags.write_text("0x1003\n" if words[0] == "ifup" else "0x1002\n")
        return real(context, words, package, **options)

    monkeypatch.setattr(programs, "need", need)
    look = context.with_(test=True)
    added = network.managed(context, "eth0", proto="manual")
    assert added.changes["status"] == "Interface eth0 is up"
    changed = network.managed(context, "eth0", proto="dhcp")
    assert changed.changes["status"] == "Interface eth0 restart to validate"
    assert [words[0] for words in ran] == ["ifup", "ifdown", "ifup"]
    assert network.managed(context, "eth0", proto="dhcp").changes == {}
    flags.write_text("0x1002\n")
    assert "set to be up" in network.managed(look, "eth0", proto="dhcp").comment
    flags.write_text("0x1003\n")
    down = network.managed(context, "eth0", proto="dhcp", enabled=False)
    assert down.result is True
    assert [words[0] for words in ran][3:] == ["ifdown"]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("bond", {"proto": "manual", "slaves": "eth0 eth1", "mode": "802.3ad", "miimon": 100},
         ["iface x inet manual", "    bond-mode 802.3ad", "    bond-slaves eth0 eth1",
          "    bond-miimon 100"]),
        ("bridge", {"proto": "dhcp", "ports": ["eth0", "eth1"], "stp": False, "delay": 0},
         ["iface x inet dhcp", "    bridge_ports eth0 eth1", "    bridge_stp off",
          "    bridge_fd 0"]),
        ("vlan", {"proto": "manual", "vlan-raw-device": "eth0"},
         ["iface x inet manual", "    vlan-raw-device eth0"]),
        ("eth", {"ipv6proto": "static", "ipv6addr": "2001:db8::2", "ipv6netmask": 64},
         ["iface x inet6 static", "    address 2001:db8::2", "    netmask 64"]),
        ("eth", {"proto": "dhcp", "ipv6proto": "auto", "hotplug": True},
         ["allow-hotplug x", "iface x inet dhcp", "iface x inet6 auto"]),
    ],
    ids=str,
)  # fmt: skip
def test_lines_of_an_interface(kind: str, given: dict[str, Any], expected: list[str]) -> None:
    made = stanzas.build("x", kind, True, given)
    assert sorted(made) == sorted(["auto x", *expected])


@pytest.mark.parametrize(
    "given",
    [{"gatewy": "10.0.0.1"}, {"proto": "dchp"}, {"ipaddr": "1\n2"}, {"ipaddr": {"a": 1}}],
    ids=str,
)
def test_interface_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        stanzas.build("x", "eth", True, given)


def test_routes_are_written_once(context: Context, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "noifupdown": True,
        "routes": [
            {"name": "lab", "ipaddr": "10.2.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.9"},
            {"ipaddr": "2001:db8:1::/48", "gateway": "2001:db8::1", "metric": 5},
        ],
    }
    assert network.routes(context.with_(test=True), "eth0", **given).result is None
    path = tmp_path / "network" / "if-up.d" / "route-eth0"
    assert not path.exists()
    assert network.routes(context, "eth0", **given).comment == "Interface eth0 routes added."
    assert path.read_text().splitlines()[2:] == [
        'test "${IFACE}" = "eth0" || exit 0',
        "# lab",
        "ip route add 10.2.0.0/16 via 10.0.0.9 dev eth0",
        "ip -6 route add 2001:db8:1::/48 via 2001:db8::1 dev eth0 metric 5",
    ]
    assert path.stat().st_mode & 0o777 == 0o755
    assert network.routes(context, "eth0", **given).changes == {}
    wrong = {"noifupdown": True, "routes": [{"ipaddr": "10.0.0.0/8; reboot"}]}
    assert network.routes(context, "eth0", **wrong).result is False


def test_global_settings_are_written_once(context: Context, tmp_path: Path) -> None:
    given: dict[str, Any] = {"enabled": True, "hostname": "new", "search": ["a.example", "b"],
                             "noifupdown": True}  # fmt: skip
    assert network.system(context.with_(test=True), "s", **given).result is None
    assert (tmp_path / "hostname").read_text() == "old\n"
    changed = network.system(context, "s", **given)
    assert "+HOSTNAME=new" in changed.changes["network_settings"]
    assert (tmp_path / "hostname").read_text() == "new\n"
    assert (tmp_path / "resolv.conf").read_text() == "search a.example b\nnameserver 10.0.0.53\n"
    assert network.system(context, "s", **given).changes == {}
    wrong = network.system(context, "s", hostname="a b!", noifupdown=True)
    assert "can't be the name of a host" in wrong.comment


def test_other_systems_are_refused_with_a_way_out(context: Context, tmp_path: Path) -> None:
    other = context.with_(grains={"os_family": "RedHat"})
    assert "file.managed" in network.managed(other, "eth0", proto="dhcp").comment
    (tmp_path / "network").rename(tmp_path / "gone")
    assert "install the package ifupdown" in network.managed(context, "eth0").comment
    with pytest.raises(CommandExecutionError):
        context.call("ip.build_routes", "eth0", routes=[])
