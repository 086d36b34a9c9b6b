"""Functions of templates that give values; expected values are those that Salt 3008.5 gave."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from catena.core.context import Context
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.runtime.session import execution_index

PILLAR: dict[Any, Any] = {
    "a": {"b": {"c": 1}, "n": None},
    "role": "web",
    "roles": ["db", "x"],
    1: "int",
}
GRAINS = {"id": "m1", "os_family": "Debian", "empty": "", "site": "north"}
OPTS = {"id": "m1", "mysql.host": "h", "a": {"z": 9}}
A = {"a": 1, "l": [1, 2], "d": {"x": 1, "l": ["p"]}}
B = {"a": 2, "l": [2, 3], "d": {"y": 2, "l": ["q"]}, "n": None}


@pytest.fixture
def context() -> Context:
    none = cast(Any, None)
    functions = Registry("function", execution_index(), FunctionMark)
    return Context(OPTS, GRAINS, PILLAR, functions, Registry("state", {}, StateMark), none, none)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "value"),
    [
        ("pillar.fetch", ["nope"], {}, ""),
        ("pillar.fetch", ["a:b:c"], {}, 1),
        ("pillar.filter_by", [{"web": {"p": 1}, "default": {}}, "role"], {}, {"p": 1}),
        ("pillar.filter_by", [{"x": {"p": 1}, "default": {"d": 1}}, "role"], {}, {"d": 1}),
        ("pillar.filter_by", [{"x": 1}, "role"], {}, None),
        (
            "pillar.filter_by",
            [{"d*": {"p": 1}, "base": {"z": 0}}, "roles"],
            {"base": "base", "merge": {"m": 1}},
            {"z": 0, "p": 1, "m": 1},
        ),
        ("grains.has_value", ["empty"], {}, True),
        ("grains.has_value", ["nope"], {}, False),
        ("config.dot_vals", ["mysql"], {}, {"mysql.host": "h"}),
        ("config.merge", ["site"], {}, ""),
        ("config.get", ["a"], {"merge": "recurse"}, {"b": {"c": 1}, "n": None, "z": 9}),
        ("config.get", ["a:b"], {"merge": "recurse", "default": {"q": 1}}, {"c": 1}),
        ("config.get", ["nope"], {"merge": "recurse", "default": {"q": 1}}, {"q": 1}),
        ("config.manage_mode", ["644"], {}, "0644"),
        ("config.manage_mode", [420], {}, "0420"),
        ("config.manage_mode", [None], {}, None),
        ("match.ifelse", ["x*", 1, "m*", 2, 3], {}, 2),
        ("match.ifelse", [False, 1, 3], {}, 3),
        (
            "match.ifelse",
            ["G@os_family:Debian", {"x": 1}, {}],
            {"merge": {"y": 2}},
            {"x": 1, "y": 2},
        ),
        ("slsutil.merge", [A, B], {"strategy": "aggregate"}, B),
        ("slsutil.merge", [{"k": 1, **A}, B], {"strategy": "aggregate"}, {"k": 1, **B}),
        (
            "slsutil.merge",
            [{"a": 1, "b": 2}, {"a": 3, "c": 4}],
            {"strategy": "list"},
            {"a": [1, 3], "b": 2},
        ),
        ("slsutil.merge", [A, B], {"strategy": "bogus"}, {**B, "d": {"x": 1, "l": ["q"], "y": 2}}),
        (
            "slsutil.merge",
            [{"l": [1]}, {"l": [2]}],
            {"strategy": "none", "merge_lists": True},
            {"l": [2]},
        ),
        ("slsutil.serialize", ["yaml", {"b": [1, "é"], "a": {}}], {}, 'a: {}\nb: [1, "\\xE9"]'),
        ("slsutil.serialize", ["yaml", {"b": [1]}], {"default_flow_style": False}, "b:\n- 1"),
        ("slsutil.serialize", ["yaml", "x"], {}, "x"),
        ("slsutil.serialize", ["json", {"b": "é"}], {}, '{"b": "é"}'),
        ("slsutil.boolstr", ["False", "on", "off"], {}, "on"),
        ("slsutil.boolstr", [0, "on", "off"], {}, "off"),
        (
            "slsutil.banner",
            [],
            {
                "title": "A title of words",
                "text": "x",
                "width": 16,
                "commentchar": " *",
                "borderchar": "*",
            },
            " ***************\n *             *\n *  A title of *\n *    words    *\n"
            " *             *\n * x           *\n ***************",
        ),
    ],
)
def test_function_returns_the_value_of_salt(
    context: Context, fun: str, args: list[Any], kwargs: dict[str, Any], value: Any
) -> None:
    assert context.call(fun, *args, **kwargs) == value


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("calc_net", ["10.0.0.5", "255.255.255.0"], "10.0.0.0/24"),
        ("calc_net", ["fe80::1"], "fe80::1/128"),
        (
            "convert_cidr",
            ["192.168.1.1/30"],
            {"network": "192.168.1.0", "netmask": "255.255.255.252", "broadcast": "192.168.1.3"},
        ),
        ("iphexval", ["10.0.0.5"], "0A000005"),
        ("reverse_ip", ["10.0.0.5"], "5.0.0.10.in-addr.arpa"),
        ("ip_in_subnet", ["10.0.0.5", "10.0.0.0/24"], True),
        ("in_subnet", ["10.0.0.0/8", "10.9.9.9"], True),
        ("in_subnet", [["nope", "10.0.0.0/8"], "11.0.0.1"], False),
        ("is_loopback", ["127.0.0.1"], True),
    ],
)
def test_networks_are_reckoned_as_salt_does(
    context: Context, fun: str, args: list[Any], value: Any
) -> None:
    assert context.call(f"network.{fun}", *args) == value


ADDRESSES = """[{"ifname": "lo", "flags": ["LOOPBACK", "UP"], "address": "00:00:00:00:00:00",
 "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "label": "lo"}]},
 {"ifname": "eth0", "flags": ["BROADCAST"], "address": "02:fc:00:00:00:01", "addr_info": [
 {"family": "inet", "local": "192.0.2.2", "prefixlen": 24, "broadcast": "192.0.2.255",
  "label": "eth0"},
 {"family": "inet6", "local": "fd00::2", "prefixlen": 64, "scope": "global"}]}]"""
ROUTES = """[{"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
 {"dst": "192.0.2.0/24", "dev": "eth0", "prefsrc": "192.0.2.2"}]"""


@pytest.fixture
def iproute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an `ip` on the path that knows one host."""
    program = tmp_path / "ip"
    program.write_text(
        f"#!/bin/sh\ncase \"$*\" in *address*) echo '{ADDRESSES}' ;; *-4*) echo '{ROUTES}' ;;"
        " *) echo '[]' ;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        (
            "interface",
            ["eth0"],
            [
                {
                    "address": "192.0.2.2",
                    "netmask": "255.255.255.0",
                    "broadcast": "192.0.2.255",
                    "label": "eth0",
                }
            ],
        ),
        ("interface", ["no"], 'Interface "no" not in available interfaces: "lo", "eth0"'),
        ("interface_ip", ["lo"], "127.0.0.1"),
        ("hwaddr", ["eth0"], "02:fc:00:00:00:01"),
        ("ip_addrs", [], ["192.0.2.2"]),
        ("ip_addrs", ["lo"], []),
        ("ip_addrs", ["lo", True], ["127.0.0.1"]),
        ("ipaddrs6", [], ["fd00::2"]),
        ("subnets", [], ["192.0.2.0/24"]),
        ("ip_networks6", [], ["fd00::/64"]),
        ("in_subnet", ["192.0.2.0/24"], True),
        (
            "default_route",
            ["inet"],
            [
                {
                    "addr_family": "inet",
                    "destination": "0.0.0.0",
                    "gateway": "192.0.2.1",
                    "netmask": "0.0.0.0",
                    "flags": "UG",
                    "interface": "eth0",
                }
            ],
        ),
    ],
)
def test_interfaces_and_routes_have_salts_form(
    context: Context, iproute: None, fun: str, args: list[Any], value: Any
) -> None:
    assert context.call(f"network.{fun}", *args) == value


def test_host_without_iproute_knows_its_addresses_by_its_grains(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    grains = {"ip4_interfaces": {"eth0": ["192.0.2.2"]}, "hwaddr_interfaces": {"eth0": "02:fc"}}
    known = context.with_(grains=grains)
    assert known.call("network.ip_addrs") == ["192.0.2.2"]
    assert known.call("network.hw_addr", "eth0") == "02:fc"
    assert known.call("network.subnets") == []
