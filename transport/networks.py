"""Networks of addresses, for limits: what one host has, and what one owner has."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple


class Network(NamedTuple):
    """Where a key came from, as what its share is counted by."""

    #: One host: an IPv4 address, or the /64 from which a host chooses its IPv6 addresses.
    host: str
    #: Hosts that one owner may have: an IPv4 /24, an IPv6 /48.
    prefix: str


@lru_cache(4096)
def network(address: str) -> Network:
    """Return the network of an IP address; text that is none is a network of its own."""
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
