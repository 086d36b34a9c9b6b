"""Interfaces, addresses, routes and neighbours, from iproute2."""

from __future__ import annotations

import ipaddress
import json
import shutil
from typing import Any, Dict, List, Mapping, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

_SECONDS = 30
Rows = List[Dict[str, Any]]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def told(context: Context, *words: str) -> Rows:
    """Return the JSON output of `ip`.

    Raises:
        CommandExecutionError: there is no `ip` here, or it fails.
    """
    ran = run(context, ["ip", "-json", *words], RunOptions(python_shell=False, timeout=_SECONDS))
    if ran.retcode:
        raise CommandExecutionError(f"ip {' '.join(words)}: {ran.stderr or ran.stdout}")
    try:
        found = json.loads(ran.stdout or "[]")
    except ValueError as problem:
        raise CommandExecutionError(f"ip {' '.join(words)}: {problem}") from None
    return [row for row in found if isinstance(row, dict) and row]


def _four(row: Mapping[str, Any]) -> Dict[str, Any]:
    mask = ipaddress.ip_network(f"0.0.0.0/{row.get('prefixlen', 32)}").netmask
    return {
        "address": row.get("local", ""),
        "netmask": str(mask),
        "broadcast": row.get("broadcast"),
        "label": row.get("label", ""),
    }


def _six(row: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "address": row.get("local", ""),
        "prefixlen": str(row.get("prefixlen", 128)),
        "scope": row.get("scope", ""),
    }


@function(reads=True)
def interfaces(context: Context) -> Dict[str, Dict[str, Any]]:
    """Return up, hwaddr, inet and inet6 by interface; the last two only if there are addresses.

    Without iproute2 the result has addresses but neither masks nor `up`.
    """
    if shutil.which("ip") is None:
        return _from_grains(context.grains)
    found = {}
    for row in told(context, "address", "show"):
        shown: Dict[str, Any] = {"up": "UP" in row.get("flags", [])}
        if row.get("address"):
            shown["hwaddr"] = row["address"]
        rows = row.get("addr_info", [])
        for family, form in (("inet", _four), ("inet6", _six)):
            some = [form(one) for one in rows if one.get("family") == family]
            if some:
                shown[family] = some
        found[str(row.get("ifname", ""))] = shown
    return found


def _from_grains(grains: Mapping[str, Any]) -> Dict[str, Dict[str, Any]]:
    kinds = (("inet", "ip4_interfaces"), ("inet6", "ip6_interfaces"))
    found: Dict[str, Dict[str, Any]] = {}
    for name, address in grains.get("hwaddr_interfaces", {}).items():
        found[name] = {"up": True, "hwaddr": address}
    for family, grain in kinds:
        for name, addresses in grains.get(grain, {}).items():
            shown = found.setdefault(name, {"up": True})
            if addresses:
                shown[family] = [{"address": str(one).partition("%")[0]} for one in addresses]
    return found


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    names = ", ".join(f'"{one}"' for one in known)
    return f'Interface "{name}" not in available interfaces: {names}'


@function(reads=True)
def interface(context: Context, iface: str) -> Any:
    """Return the IPv4 addresses of one interface, with mask, broadcast and label."""
    found = interfaces(context)
    return found[iface].get("inet") if iface in found else _unknown(iface, found)


@function(reads=True)
def interface_ip(context: Context, iface: str) -> str:
    """Return the first IPv4 address of one interface, or ""."""
    found = interfaces(context)
    if iface not in found:
        return _unknown(iface, found)
    return str(next((row["address"] for row in found[iface].get("inet", ())), ""))


@function(reads=True)
def ifacestartswith(context: Context, cidr: str) -> List[str]:
    """Return the interfaces one of whose IPv4 addresses begins with *cidr*, less its last dots."""
    start = cidr.split("/")[0].rstrip(".0") if "/" in cidr else cidr
    return [
        name
        for name, shown in interfaces(context).items()
        if any(row["address"].startswith(start) for row in shown.get("inet", ()))
    ]


@function(reads=True)
def hw_addr(context: Context, iface: str) -> str:
    """Return the hardware address of an interface."""
    found = interfaces(context)
    return str(found[iface].get("hwaddr", "")) if iface in found else _unknown(iface, found)


@function(reads=True)
def hwaddr(context: Context, iface: str) -> str:
    """Return the hardware address of an interface, as network.hw_addr does."""
    return hw_addr(context, iface)


def _rows(context: Context, family: str, name: Optional[str]) -> Rows:
    found = interfaces(context)
    chosen = [found.get(name, {})] if name else list(found.values())
    return [row for shown in chosen for row in shown.get(family, ())]


def _addresses(
    context: Context, family: str, name: Optional[str], loopback: bool, cidr: Any, kind: Any
) -> List[str]:
    networks = [network_of(one) for one in ([cidr] if isinstance(cidr, str) else cidr or ())]
    found = []
    for row in _rows(context, family, name):
        address = ipaddress.ip_address(row["address"])
        if address.is_loopback and not loopback:
            continue
        if networks and not any(address in network for network in networks):
            continue
        if kind in ("public", "private") and address.is_private != (kind == "private"):
            continue
        found.append(address)
    return [str(address) for address in sorted(set(found))]


def network_of(text: Any) -> Network:
    """Return a network, of an address too.

    Raises:
        UsageError: it is none.
    """
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError as problem:
        raise UsageError(str(problem)) from None


@function(reads=True)
def ip_addrs(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    cidr: Any = None,
    type: Optional[str] = None,
) -> List[str]:
    """Return the IPv4 addresses of this host.

    Args:
        context: the call's context.
        interface: only addresses of this interface.
        include_loopback: include loopback addresses.
        cidr: only addresses in this network, or in one of a list.
        type: "public" or "private" ones.

    Raises:
        UsageError: *cidr* is no network.
    """
    return _addresses(context, "inet", interface, include_loopback, cidr, type)


@function(reads=True)
def ip_addrs6(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    cidr: Any = None,
) -> List[str]:
    """Return the IPv6 addresses of this host; see network.ip_addrs."""
    return _addresses(context, "inet6", interface, include_loopback, cidr, None)


@function(reads=True)
def ipaddrs(context: Context, /, interface: Optional[str] = None, **options: Any) -> List[str]:
    """Return the IPv4 addresses of this host, as network.ip_addrs does."""
    return list(ip_addrs(context, interface, **options))


@function(reads=True)
def ipaddrs6(context: Context, /, interface: Optional[str] = None, **options: Any) -> List[str]:
    """Return the IPv6 addresses of this host, as network.ip_addrs6 does."""
    return list(ip_addrs6(context, interface, **options))


def _networks(context: Context, family: str, name: Optional[str], loopback: bool) -> List[Any]:
    found = set()
    for row in _rows(context, family, name):
        length = row.get("netmask") or row.get("prefixlen")
        if length is None:
            continue
        network = network_of(f"{row['address']}/{length}")
        if loopback or not network.is_loopback:
            found.add(network)
    return sorted(found)


@function(reads=True)
def subnets(context: Context, interfaces: Optional[str] = None) -> List[str]:
    """Return the IPv4 networks that this host is in, loopback's aside."""
    return [str(one) for one in _networks(context, "inet", interfaces, False)]


@function(reads=True)
def subnets6(context: Context) -> List[str]:
    """Return the IPv6 networks that this host is in, loopback's aside."""
    return [str(one) for one in _networks(context, "inet6", None, False)]


def _shown(networks: List[Any], verbose: bool) -> Any:
    if not verbose:
        return [str(one) for one in networks]
    return {
        str(one): {
            "address": str(one.network_address),
            "netmask": str(one.netmask),
            "num_addresses": one.num_addresses,
            "prefixlen": one.prefixlen,
        }
        for one in networks
    }


@function(reads=True)
def ip_networks(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    verbose: bool = False,
) -> Any:
    """Return the IPv4 networks of this host; with *verbose* their mask and size, by network."""
    return _shown(_networks(context, "inet", interface, include_loopback), verbose)


@function(reads=True)
def ip_networks6(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    verbose: bool = False,
) -> Any:
    """Return the IPv6 networks of this host; with *verbose* their mask and size, by network."""
    return _shown(_networks(context, "inet6", interface, include_loopback), verbose)
