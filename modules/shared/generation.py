"""The generation of the kernel's packet filter: a number that each change of its rules raises.

A netlink request of microseconds replaces a listing of all rules by a program, as long as nobody
has changed a rule since the last listing.
"""

from __future__ import annotations

import socket
import struct
from typing import Optional

_NETFILTER = 12  # protocol of netlink
_GET, _ANSWER = (10 << 8) | 16, (10 << 8) | 15  # NFT_MSG_GETGEN, NFT_MSG_NEWGEN
_REQUEST = 1
#: Type of the attribute that holds the generation, big-endian.
_GENERATION = 1
#: Seconds to wait for the kernel's answer.
_PATIENCE = 2.0
#: Bytes of the headers of netlink and of netfilter, before the attributes.
_HEADERS = 20
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def generation() -> Optional[int]:
    """Return the generation of nf_tables in this network namespace; None if it can't be read."""
    request = _HEADER.pack(_HEADERS, _GET, _REQUEST, 1, 0) + bytes(4)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as asked:
            asked.settimeout(_PATIENCE)
            asked.sendto(request, (0, 0))
            return parse_generation(asked.recv(4096))
    except OSError:
        return None


def parse_generation(data: bytes) -> Optional[int]:
    """Return the generation of a netlink message; None if it holds none.

    Args:
        data: message with its headers, as in linux/netfilter/nf_tables.h.
    """
    if len(data) < _HEADERS or _HEADER.unpack_from(data)[1] != _ANSWER:
        return None
    place = _HEADERS
    while place + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, place)
        if length < _ATTRIBUTE.size:
            return None
        if kind == _GENERATION and length >= 8:
            return int.from_bytes(data[place + 4 : place + 8], "big")
        place += (length + 3) & ~3
    return None
