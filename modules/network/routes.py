"""network.*: routes and neighbours."""

from __future__ import annotations

import ipaddress
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.modules.network.interfaces import told

_ANY = {"inet": "0.0.0.0", "inet6": "::"}
_OPTION = {"inet": "-4", "inet6": "-6"}


def _route(family: str, row: Mapping[str, Any]) -> Dict[str, Any]:
    to = str(row.get("dst", ""))
    destination, mask = to, ""
    if to == "default":
        destination = "0.0.0.0" if family == "inet" else "::/0"
        mask = "0.0.0.0" if family == "inet" else ""
    elif family == "inet":
        network = ipaddress.ip_network(to)
        destination, mask = str(network.network_address), str(network.netmask)
    elif "/" not in to:
        destination = f"{to}/128"
    via = row.get("gateway")
    flags = "U" + ("G" if via else "") + ("H" if mask == "255.255.255.255" else "")
    return {
        "addr_family": family,
        "destination": destination,
        "gateway": via or _ANY[family],
        "netmask": mask,
        "flags": flags,
        "interface": row.get("dev", ""),
    }


@function(reads=True)
def routes(context: Context, family: Optional[str] = None) -> List[Dict[str, Any]]:
    """Return the routes of the main table.

    Args:
        context: the call's context.
        family: "inet" or "inet6"; both by default.

    Raises:
        UsageError: no such family.
    """
    if family not in (None, *_OPTION):
        raise UsageError(f"Invalid address family {family}")
    found = []
    for one in [family] if family else list(_OPTION):
        rows = told(context, _OPTION[one], "route", "show")
        found += [_route(one, row) for row in rows if row.get("type", "unicast") == "unicast"]
    return found


@function(reads=True)
def default_route(context: Context, family: Optional[str] = None) -> List[Dict[str, Any]]:
    """Return the default routes, of one family (inet, inet6) or both."""
    return [row for row in routes(context, family) if row["destination"] in ("0.0.0.0", "::/0")]


@function(reads=True)
def get_route(context: Context, ip: str) -> Dict[str, Any]:
    """Return the route to an address: destination, gateway, interface, source.

    Raises:
        UsageError: it is no address.
    """
    try:
        address = str(ipaddress.ip_address(str(ip)))
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    rows = told(context, "route", "get", address)
    row = rows[0] if rows else {}
    return {
        "destination": row.get("dst"),
        "gateway": row.get("gateway"),
        "interface": row.get("dev"),
        "source": row.get("prefsrc"),
    }


def _neighbours(context: Context, family: str) -> Dict[str, str]:
    rows = told(context, _OPTION[family], "neighbour", "show")
    return {row["lladdr"]: row["dst"] for row in rows if "lladdr" in row and "dst" in row}


@function(reads=True)
def arp(context: Context) -> Dict[str, str]:
    """Return the IPv4 addresses of neighbours by their hardware addresses."""
    return _neighbours(context, "inet")


@function(reads=True)
def ip_neighs(context: Context) -> Dict[str, str]:
    """Return the IPv4 addresses of neighbours by their hardware addresses."""
    return _neighbours(context, "inet")


@function(reads=True)
def ip_neighs6(context: Context) -> Dict[str, str]:
    """Return the IPv6 addresses of neighbours by their hardware addresses."""
    return _neighbours(context, "inet6")


@function(reads=True)
def ipneighs(context: Context) -> Dict[str, str]:
    """Return the IPv4 addresses of neighbours, as network.ip_neighs does."""
    return _neighbours(context, "inet")


@function(reads=True)
def ipneighs6(context: Context) -> Dict[str, str]:
    """Return the IPv6 addresses of neighbours, as network.ip_neighs6 does."""
    return _neighbours(context, "inet6")
