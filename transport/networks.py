"""Networks of IP addresses, for limits per host and per owner."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple


class Network(NamedTuple):
    """The networks of an address to which limits apply."""

    #: One host: an IPv4 address, or the IPv6 /64 within which a host chooses its addresses.
    host: str
    #: Hosts that probably belong to one owner: an IPv4 /24, an IPv6 /48.
    prefix: str


@lru_cache(4096)
def network(address: str) -> Network:
    """Return the network of an IP address; text that is not an address is a network of its own."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return Network(address, address)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return Network(_cut(found, 64), _cut(found, 48))
        found = found.ipv4_mapped
    return Network(str(found), str(found).rpartition(".")[0] + ".0/24")


def _cut(address: IPv6Address, bits: int) -> str:
    kept = int(address) >> (128 - bits) << (128 - bits)
    return f"{IPv6Address(kept)}/{bits}"
