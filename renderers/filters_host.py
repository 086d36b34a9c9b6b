"""Salt's filters on addresses and on the files and users of this host."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import posixpath
import pwd
import secrets
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

Address = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
_HOST_LIMIT = 65_536
_KINDS = ("public", "private", "global", "loopback", "multicast", "reserved")


def _address(value: Any, options: Optional[str] = None) -> Optional[Address]:
    """Return *value* as an address (with or without its network) of the kinds wanted."""
    try:
        found = ipaddress.ip_interface(str(value))
    except ValueError:
        return None
    wanted = [option.strip() for option in options.split(",")] if options else []
    return found if all(_is_kind(found, kind) for kind in wanted) else None


def _is_kind(address: Address, kind: str) -> bool:
    if kind == "public":
        return not address.is_private
    return kind in _KINDS and bool(getattr(address, f"is_{kind}"))


def _filter(version: int, value: Any, options: Optional[str]) -> Any:
    def passes(item: Any) -> bool:
        found = _address(item, options)
        return found is not None and version in (0, found.version)

    if isinstance(value, (list, tuple)):
        return [item for item in value if passes(item)]
    return value if passes(value) else None


def ipaddr(value: Any, options: Optional[str] = None) -> Any:
    """Return the address, or those of a list that are addresses; None for none."""
    return _filter(0, value, options)


def ipv4(value: Any, options: Optional[str] = None) -> Any:
    """Return what is IPv4 in *value*."""
    return _filter(4, value, options)


def ipv6(value: Any, options: Optional[str] = None) -> Any:
    """Return what is IPv6 in *value*."""
    return _filter(6, value, options)


def is_ip(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an address."""
    return "/" not in str(value) and _address(value, options) is not None


def is_ipv4(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an IPv4 address."""
    return is_ip(value) and ipv4(value, options) is not None


def is_ipv6(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an IPv6 address."""
    return is_ip(value) and ipv6(value, options) is not None


def ipwrap(value: Any) -> Any:
    """Return IPv6 addresses in brackets, all else as it is."""
    if isinstance(value, (list, tuple)):
        return [ipwrap(item) for item in value]
    return f"[{value}]" if is_ipv6(value) else value


def network_hosts(value: Any, options: Optional[str] = None) -> List[str]:
    """Return the addresses of hosts in a network, at most 65 536."""
    network = ipaddress.ip_network(str(value), strict=False)
    hosts: Iterable[Any] = network.hosts()
    return [str(host) for host, _ in zip(hosts, range(_HOST_LIMIT))]


def network_size(value: Any, options: Optional[str] = None) -> int:
    """Return how many addresses a network has."""
    return ipaddress.ip_network(str(value), strict=False).num_addresses


def gen_mac(prefix: str = "AC:DE:48") -> str:
    """Return a random MAC address under *prefix*."""
    rest = [f"{secrets.randbelow(256):02X}" for _ in range(6 - len(prefix.split(":")))]
    return ":".join([prefix, *rest])


def mac_to_bytes(value: str) -> bytes:
    """Return a MAC address as six bytes."""
    return bytes.fromhex(value.replace(":", "").replace("-", "").replace(".", ""))


def is_empty_file(path: str) -> bool:
    """Return whether there is a file without content."""
    file = Path(path)
    return file.is_file() and file.stat().st_size == 0


def is_text_file(path: str) -> bool:
    """Return whether the beginning of a file is text."""
    with Path(path).open("rb") as stream:
        return b"\0" not in stream.read(8192)


def file_hash(path: str, form: str = "sha256") -> str:
    """Return the hash of a file."""
    digest = hashlib.new(form)
    with Path(path).open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def list_files(folder: str) -> List[str]:
    """Return the folder and everything below it, sorted."""
    found = [str(folder)]
    for above, folders, files in os.walk(folder):
        found += [posixpath.join(above, name) for name in (*folders, *files)]
    return sorted(found)


def get_uid(user: Union[str, int]) -> Union[int, str]:
    """Return the number of a user; "" where there is none."""
    if isinstance(user, int):
        return user
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return ""


def path_join(*parts: str, use_posixpath: bool = True) -> str:
    """Return the parts joined by slashes; later ones never begin anew at the root."""
    first, *rest = (str(part) for part in parts)
    return posixpath.normpath(posixpath.join(first, *(part.lstrip("/") for part in rest)))


FILTERS: Dict[str, Callable[..., Any]] = {
    "ipaddr": ipaddr,
    "ipv4": ipv4,
    "ipv6": ipv6,
    "is_ip": is_ip,
    "is_ipv4": is_ipv4,
    "is_ipv6": is_ipv6,
    "ipwrap": ipwrap,
    "network_hosts": network_hosts,
    "network_size": network_size,
    "gen_mac": gen_mac,
    "mac_str_to_bytes": mac_to_bytes,
    "is_empty": is_empty_file,
    "is_empty_file": is_empty_file,
    "is_text_file": is_text_file,
    "is_bin_file": lambda path: not is_text_file(path),
    "file_hashsum": file_hash,
    "list_files": list_files,
    "get_uid": get_uid,
    "which": shutil.which,
    "path_join": path_join,
}
