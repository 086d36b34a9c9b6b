"""Addresses and names of this host, from the kernel and from files; it never waits for DNS."""

from __future__ import annotations

# The C module below `socket`, which wraps the kernel's numbers in enumerations. That takes a
# twentieth of a short command's time and is not needed here.
import _socket as socket
import os
import struct
from pathlib import Path
from typing import Any, Dict, List, Tuple

#: rtnetlink(7): constants of the only request made here.
_RTM_GETADDR = 22
_RTM_NEWADDR = 20
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NLM_F_DUMP = 0x301
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")

Addresses = Dict[str, List[str]]


def collect(root: Path) -> Dict[str, Any]:
    """Return addresses, hardware addresses, names and gateways."""
    names = [name for _, name in socket.if_nameindex()]
    found = addresses()
    four = {name: [a for a in found.get(name, []) if ":" not in a] for name in names}
    six = {name: [a for a in found.get(name, []) if ":" in a] for name in names}
    grains: Dict[str, Any] = {
        "ip_interfaces": {name: four[name] + six[name] for name in names},
        "ip4_interfaces": four,
        "ip6_interfaces": six,
        "ipv4": _sorted(four, socket.AF_INET),
        "ipv6": _sorted(six, socket.AF_INET6),
        "hwaddr_interfaces": _hardware(root, names),
        "dns": _dns(root),
    }
    grains.update(_gateways(root))
    grains.update(_names(root))
    return grains


def _sorted(found: Addresses, family: int) -> List[str]:
    every = {address for some in found.values() for address in some}
    return sorted(every, key=lambda address: socket.inet_pton(family, address))


def addresses() -> Addresses:
    """Return the addresses of each interface as listed by the kernel; {} on an error."""
    try:
        link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    except OSError:
        return {}
    try:
        link.settimeout(2)
        body = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        link.send(_HEADER.pack(16 + len(body), _RTM_GETADDR, _NLM_F_DUMP, 1, 0) + body)
        found: Addresses = {}
        while not _take(link.recv(1 << 18), found):
            pass
        return found
    except OSError:
        return {}
    finally:
        link.close()


def _take(data: bytes, found: Addresses) -> bool:
    """Add the addresses in one datagram to *found*; return whether it was the last one."""
    while len(data) >= _HEADER.size:
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        if kind in (_NLMSG_DONE, _NLMSG_ERROR) or length < _HEADER.size:
            return True
        if kind == _RTM_NEWADDR:
            name, address = _parse(data[_HEADER.size : length])
            if address:
                found.setdefault(name, []).append(address)
        data = data[(length + 3) & ~3 :]
    return False


def _parse(body: bytes) -> Tuple[str, str]:
    family, _, _, _, index = _ADDRESS.unpack_from(body)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return "", ""
    values: Dict[int, bytes] = {}
    rest = body[_ADDRESS.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if length < _ATTRIBUTE.size:
            break
        values[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    # On a point-to-point link ADDRESS is the peer's address and LOCAL this host's.
    raw = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS)
    if not raw:
        return "", ""
    try:
        return socket.if_indextoname(index), socket.inet_ntop(family, raw)
    except OSError:
        return "", ""  # the interface has disappeared meanwhile


def _hardware(root: Path, names: List[str]) -> Dict[str, str]:
    found = {}
    for name in names:
        text = _text(root / "sys/class/net" / name / "address").strip()
        if text:
            found[name] = text
    return found


def _names(root: Path) -> Dict[str, Any]:
    local = socket.gethostname()
    fqdn = full_name(local, _text(root / "etc/hosts"))
    host, _, domain = fqdn.partition(".")
    own = [a for a, names in _hosts(_text(root / "etc/hosts")) if fqdn in names]
    return {
        "localhost": local,
        "fqdn": fqdn,
        "host": host,
        "domain": domain,
        "fqdn_ip4": [a for a in own if ":" not in a],
        "fqdn_ip6": [a for a in own if ":" in a],
        "nodename": os.uname().nodename,
    }


def full_name(local: str, hosts: str) -> str:
    """Return the full name of a host from its own name and the text of /etc/hosts; no DNS."""
    if "." in local:
        return local
    for _, names in _hosts(hosts):
        if local in names:
            for name in names:
                if name.startswith(local + "."):
                    return name
    return local


def _hosts(text: str) -> List[Tuple[str, List[str]]]:
    found = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1:
            found.append((words[0], words[1:]))
    return found


def _dns(root: Path) -> Dict[str, Any]:
    found: Dict[str, Any] = {
        "nameservers": [],
        "ip4_nameservers": [],
        "ip6_nameservers": [],
        "sortlist": [],
        "domain": "",
        "search": [],
        "options": [],
    }
    for line in _text(root / "etc/resolv.conf").splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver":
            found["nameservers"].append(words[1])
            found["ip6_nameservers" if ":" in words[1] else "ip4_nameservers"].append(words[1])
        elif words[0] == "domain":
            found["domain"] = words[1]
        elif words[0] in ("search", "options", "sortlist"):
            found[words[0]] = words[1:]
    return found


def _gateways(root: Path) -> Dict[str, Any]:
    four: Any = False
    for line in _text(root / "proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == "00000000" and words[7] == "00000000":
            four = socket.inet_ntoa(struct.pack("=I", int(words[2], 16)))
            break
    six: Any = False
    for line in _text(root / "proc/net/ipv6_route").splitlines():
        words = line.split()
        if len(words) > 9 and set(words[0]) == {"0"} and words[1] == "00" and words[9] != "lo":
            import ipaddress

            six = str(ipaddress.IPv6Address(int(words[4], 16)))
            break
    return {"ip_gw": bool(four or six), "ip4_gw": four, "ip6_gw": six}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
