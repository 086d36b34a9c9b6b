"""network.*: names, networks and reachability; see `interfaces` for addresses."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.modules.network import interfaces
from catena.modules.network.interfaces import network_of

_LONGEST_WAIT = 60.0


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
        return ipaddress.ip_address(str(address)) in network_of(cidr)
    except ValueError as problem:
        raise UsageError(str(problem)) from None


@function(reads=True)
def in_subnet(context: Context, cidr: Any, addr: Optional[str] = None) -> bool:
    """Return whether *addr*, or any address of this host but loopback, is in a network.

    *cidr* may be a list of networks; what is no network holds nothing.
    """
    networks = [cidr] if isinstance(cidr, str) else list(cidr)
    own = [addr] if addr else [*interfaces.ip_addrs(context), *interfaces.ip_addrs6(context)]
    return any(is_network(net) and is_in(one, net) for net in networks for one in own)


def is_network(text: Any) -> bool:
    """Return whether *text* is a network or an address."""
    try:
        network_of(text)
    except UsageError:
        return False
    return True


@function(inline=True)
def calc_net(context: Context, ip_addr: str, netmask: Optional[str] = None) -> str:
    """Return the network of an address and mask (or ADDRESS/PREFIX)."""
    return str(network_of(f"{ip_addr}/{netmask}" if netmask else ip_addr))


@function(inline=True)
def convert_cidr(context: Context, cidr: str) -> Dict[str, str]:
    """Return {"network", "netmask", "broadcast"} of a network."""
    found = network_of(cidr)
    return {
        "network": str(found.network_address),
        "netmask": str(found.netmask),
        "broadcast": str(found.broadcast_address),
    }


@function(inline=True)
def iphexval(context: Context, ip: str) -> str:
    """Return an IPv4 address in hexadecimal: 0A000005.

    Raises:
        UsageError: it is none.
    """
    try:
        return ipaddress.IPv4Address(str(ip)).packed.hex().upper()
    except ValueError as problem:
        raise UsageError(str(problem)) from None


@function(inline=True)
def reverse_ip(context: Context, ip_addr: str) -> str:
    """Return the name that DNS knows an address by: 5.0.0.10.in-addr.arpa.

    Raises:
        UsageError: it is no address.
    """
    try:
        return ipaddress.ip_address(str(ip_addr)).reverse_pointer
    except ValueError as problem:
        raise UsageError(str(problem)) from None


@function(reads=True)
def fqdns(context: Context) -> Dict[str, List[str]]:
    """Return {"fqdns": names} of this host's addresses, from the name service."""
    own = [*interfaces.ip_addrs(context), *interfaces.ip_addrs6(context)]
    found = set()
    for address in own:
        try:
            name, aliases, _ = socket.gethostbyaddr(address)
        except OSError:
            continue
        found |= {one for one in (name, *aliases) if "." in one}
    return {"fqdns": sorted(found)}


@function(inline=True)
def is_private(context: Context, ip_addr: str) -> bool:
    """Return whether an address is of a private network."""
    return network_of(ip_addr).is_private


@function(inline=True)
def is_loopback(context: Context, ip_addr: str) -> bool:
    """Return whether an address is this host's loopback."""
    return network_of(ip_addr).is_loopback


@function(reads=True)
def connect(
    context: Context, host: str, port: int, proto: str = "tcp", timeout: float = 5
) -> Dict[str, Any]:
    """Try to connect to a TCP port; return {"result", "comment"}."""
    if proto != "tcp" or not 0 < int(port) < 65536:
        raise UsageError("network.connect takes a TCP port")
    try:
        with socket.create_connection((host, int(port)), min(float(timeout), _LONGEST_WAIT)):
            pass
    except OSError as problem:
        told = f"Unable to connect to {host} on tcp port {port}: {problem}"
        return {"result": False, "comment": told}
    return {"result": True, "comment": f"Successfully connected to {host} on tcp port {port}"}


@function()
def ping(context: Context, host: str, timeout: int = 5, return_boolean: bool = False) -> Any:
    """Ping a host four times; return the program's output, or whether the host answered."""
    from catena.modules.shared.command.options import RunOptions
    from catena.modules.shared.command.run import run

    name = str(host)
    if name.startswith("-"):
        raise UsageError(f"{name!r} is not a host")
    words = ["ping", "-c", "4", "-W", str(int(timeout)), name]
    ran = run(context, words, RunOptions(python_shell=False, timeout=120))
    return ran.retcode == 0 if return_boolean else ran.stdout
