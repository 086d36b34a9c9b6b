"""network.*: addresses, names and reachability, from grains and the standard library."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Dict, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function

_LONGEST_WAIT = 60.0


def _network(text: str) -> Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError as problem:
        raise UsageError(str(problem)) from None


def _addresses(context: Context, version: int, loopback: bool, cidr: Any) -> List[str]:
    found = []
    for text in context.grains.get("ipv4" if version == 4 else "ipv6", []):
        try:
            address = ipaddress.ip_address(str(text).partition("%")[0])
        except ValueError:
            continue
        if (address.is_loopback and not loopback) or (cidr and address not in _network(cidr)):
            continue
        found.append(str(text))
    return found


@function(reads=True)
def ip_addrs(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    cidr: Optional[str] = None,
    type: Optional[str] = None,
) -> List[str]:
    """Return the IPv4 addresses of this host, of one interface, in one network, public or private.

    Raises:
        UsageError: *cidr* is no network.
    """
    if interface:
        found = list(context.grains.get("ip4_interfaces", {}).get(interface, []))
    else:
        found = _addresses(context, 4, include_loopback, cidr)
    if cidr:
        found = [one for one in found if ipaddress.ip_address(one) in _network(cidr)]
    if type in ("public", "private"):
        found = [
            one for one in found if ipaddress.ip_address(one).is_private == (type == "private")
        ]
    return found


@function(reads=True)
def ip_addrs6(
    context: Context,
    interface: Optional[str] = None,
    include_loopback: bool = False,
    cidr: Optional[str] = None,
) -> List[str]:
    """Return the IPv6 addresses of this host, of one interface, or in one network."""
    if interface:
        return list(context.grains.get("ip6_interfaces", {}).get(interface, []))
    return _addresses(context, 6, include_loopback, cidr)


@function(reads=True)
def ipaddrs(context: Context, interface: Optional[str] = None, **options: Any) -> List[str]:
    """Return the IPv4 addresses of this host, as network.ip_addrs does."""
    return list(ip_addrs(context, interface, **options))


@function(reads=True)
def interfaces(context: Context) -> Dict[str, Dict[str, Any]]:
    """Return up, hwaddr, inet and inet6 by interface."""
    names = context.grains.get("ip_interfaces", {})
    hardware = context.grains.get("hwaddr_interfaces", {})
    four = context.grains.get("ip4_interfaces", {})
    six = context.grains.get("ip6_interfaces", {})
    return {
        name: {
            "up": True,
            "hwaddr": hardware.get(name, ""),
            "inet": [{"address": address, "label": name} for address in four.get(name, [])],
            "inet6": [{"address": address} for address in six.get(name, [])],
        }
        for name in sorted({*names, *hardware})
    }


@function(inline=True)
def hw_addr(context: Context, iface: str) -> str:
    """Return the hardware address of an interface, or ""."""
    return str(context.grains.get("hwaddr_interfaces", {}).get(iface, ""))


@function(inline=True)
def get_hostname(context: Context) -> str:
    """Return the host name."""
    return socket.gethostname()


@function(reads=True)
def get_fqdn(context: Context) -> str:
    """Return the fully qualified host name."""
    return str(context.grains.get("fqdn") or socket.getfqdn())


@function(inline=True)
def ip_in_subnet(context: Context, ip_addr: str, cidr: str) -> bool:
    """Return whether an address is in a network."""
    return is_in(ip_addr, cidr)


def is_in(address: str, cidr: str) -> bool:
    """Return whether *address* is in *cidr*.

    Raises:
        UsageError: one of them is malformed.
    """
    try:
        return ipaddress.ip_address(str(address)) in _network(cidr)
    except ValueError as problem:
        raise UsageError(str(problem)) from None


@function(inline=True)
def in_subnet(context: Context, cidr: str, addr: Optional[str] = None) -> bool:
    """Return whether *addr*, or any address of this host, is in a network."""
    if addr:
        return is_in(addr, cidr)
    return any(is_in(one, cidr) for one in _addresses(context, _network(cidr).version, True, None))


@function(inline=True)
def calc_net(context: Context, ip_addr: str, netmask: Optional[str] = None) -> str:
    """Return the network of an address and mask (or ADDRESS/PREFIX)."""
    return str(_network(f"{ip_addr}/{netmask}" if netmask else ip_addr))


@function(inline=True)
def is_private(context: Context, ip_addr: str) -> bool:
    """Return whether an address is of a private network."""
    return _network(ip_addr).is_private


@function(inline=True)
def is_loopback(context: Context, ip_addr: str) -> bool:
    """Return whether an address is this host's loopback."""
    return _network(ip_addr).is_loopback


@function(reads=True)
def connect(
    context: Context, host: str, port: int, proto: str = "tcp", timeout: float = 5
) -> Dict[str, Any]:
    """Try to connect to a TCP port; {"result", "comment"}."""
    if proto != "tcp" or not 0 < int(port) < 65536:
        raise UsageError("network.connect takes a TCP port")
    try:
        with socket.create_connection((host, int(port)), min(float(timeout), _LONGEST_WAIT)):
            pass
    except OSError as problem:
        return {"result": False, "comment": f"Unable to connect to {host} ({port}/tcp): {problem}"}
    return {"result": True, "comment": f"Successfully connected to {host} ({port}/tcp)"}


@function()
def ping(context: Context, host: str, timeout: int = 5, return_boolean: bool = False) -> Any:
    """Ping a host four times; the program's words, or whether it answered."""
    from catena.modules.cmd.options import RunOptions
    from catena.modules.cmd.run import run

    name = str(host)
    if name.startswith("-"):
        raise UsageError(f"{name!r} is not a host")
    words = ["ping", "-c", "4", "-W", str(int(timeout)), name]
    ran = run(context, words, RunOptions(python_shell=False, timeout=120))
    return ran.retcode == 0 if return_boolean else ran.stdout


@function(reads=True)
def default_route(context: Context, family: Optional[str] = None) -> List[Dict[str, str]]:
    """Return the default IPv4 routes of the kernel's table."""
    from pathlib import Path

    path, found = Path("/proc/net/route"), []
    for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else []:
        words = line.split()
        if len(words) > 7 and words[1] == "00000000" and words[7] == "00000000":
            gateway = ipaddress.ip_address(int.from_bytes(bytes.fromhex(words[2]), "little"))
            found.append(
                {
                    "addr_family": "inet",
                    "destination": "0.0.0.0",
                    "gateway": str(gateway),
                    "interface": words[0],
                    "netmask": "0.0.0.0",
                }
            )
    return found
