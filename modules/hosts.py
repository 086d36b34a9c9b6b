"""hosts.*: edit /etc/hosts, preserving comments and order."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any, Dict, List, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import function
from catena.modules.file import content
from catena.modules.shared.arguments import listed

#: Zone of an IPv6 address: the name of an interface.
_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}\Z")


@dataclass(frozen=True)
class HostsLine:
    """One line: an address with its names, or other text that stays unchanged."""

    text: str
    ip: str = ""
    names: Tuple[str, ...] = ()
    comment: str = ""

    def written(self) -> str:
        """Return the text of the line."""
        if not self.ip:
            return self.text
        tail = f"\t\t#{self.comment}" if self.comment else ""
        return f"{self.ip}\t\t{' '.join(self.names)}{tail}"


def parse(text: str) -> List[HostsLine]:
    """Return the lines of a hosts file."""
    found = []
    for raw in text.splitlines():
        body, _, comment = raw.partition("#")
        words = body.split()
        if len(words) >= 2:
            found.append(HostsLine(raw, words[0], tuple(words[1:]), comment))
        else:
            found.append(HostsLine(raw))
    return found


def with_host(lines: List[HostsLine], ip: str, names: List[str]) -> List[HostsLine]:
    """Return *lines* with *names* added to *ip*."""
    for position, line in enumerate(lines):
        if line.ip == ip:
            fresh = [name for name in names if name not in line.names]
            if not fresh:
                return lines
            made = replace(line, names=(*line.names, *fresh))
            return [*lines[:position], made, *lines[position + 1 :]]
    return [*lines, HostsLine("", ip, tuple(names))]


def without_host(lines: List[HostsLine], ip: str, names: List[str]) -> List[HostsLine]:
    """Return *lines* with *names* removed from *ip*; "" means any address."""
    found = []
    for line in lines:
        if line.ip and ip in ("", line.ip) and set(names) & set(line.names):
            left = tuple(name for name in line.names if name not in names)
            if not left:
                continue
            line = replace(line, names=left)
        found.append(line)
    return found


def with_only(lines: List[HostsLine], ip: str, names: List[str]) -> List[HostsLine]:
    """Return *lines* where *ip* has exactly *names*."""
    kept = [line for line in lines if line.ip != ip]
    place = next((n for n, line in enumerate(lines) if line.ip == ip), len(kept))
    place = min(place, len(kept))
    return [*kept[:place], HostsLine("", ip, tuple(names)), *kept[place:]] if names else kept


def path_of(context: Context) -> Path:
    """Return the hosts file (option `hosts.file`)."""
    return Path(str(context.opts.get("hosts.file") or "/etc/hosts"))


def load(context: Context) -> List[HostsLine]:
    """Return the lines of the hosts file; none when it is missing."""
    path = path_of(context)
    return parse(content.decode(content.read(path))) if path.is_file() else []


def save(context: Context, lines: List[HostsLine]) -> bool:
    """Write /etc/hosts if it differs; return whether names changed."""
    path = path_of(context)
    if [(line.ip, line.names) for line in load(context)] == [
        (line.ip, line.names) for line in lines
    ]:
        return False
    content.write(path, content.encode("".join(f"{line.written()}\n" for line in lines)))
    return True


def checked_ip(ip: Any) -> str:
    """Return *ip*.

    Raises:
        UsageError: it is no address.
    """
    address, mark, zone = str(ip).partition("%")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(f"{ip!r} is not an address") from None
    if mark and not _ZONE.match(zone):
        raise UsageError(f"{ip!r} is not an address")
    return str(ip)


def checked_names(names: Any) -> List[str]:
    """Return one or several host names.

    Raises:
        UsageError: one of them cannot stand in a hosts file.
    """
    found = [part for one in listed(names) for part in str(one).split()]
    for name in found:
        if not name or "#" in name or not name.isprintable():
            raise UsageError(f"{name!r} is not a host name")
    return found


def addresses_of(lines: List[HostsLine]) -> Dict[str, List[str]]:
    """Return the names by address."""
    found: Dict[str, List[str]] = {}
    for line in lines:
        if line.ip:
            found.setdefault(line.ip, []).extend(line.names)
    return found


@function(reads=True)
def list_hosts(context: Context) -> Dict[str, Dict[str, List[str]]]:
    """Return the names by address: {ip: {"aliases": [...]}}."""
    return {ip: {"aliases": names} for ip, names in addresses_of(load(context)).items()}


@function(reads=True)
def get_ip(context: Context, host: str) -> str:
    """Return the first address of a name, or ""."""
    found = (ip for ip, names in addresses_of(load(context)).items() if host in names)
    return next(found, "")


@function(reads=True)
def get_alias(context: Context, ip: str) -> List[str]:
    """Return the names of an address."""
    return addresses_of(load(context)).get(ip, [])


@function(reads=True)
def has_pair(context: Context, ip: str, alias: Any) -> bool:
    """Return whether an address has a name (all of several)."""
    names = addresses_of(load(context)).get(str(ip), [])
    return all(name in names for name in checked_names(alias))


@function()
def add_host(context: Context, ip: str, alias: Any) -> bool:
    """Add a name to an address; return True."""
    save(context, with_host(load(context), checked_ip(ip), checked_names(alias)))
    return True


@function()
def rm_host(context: Context, ip: str, alias: Any) -> bool:
    """Remove a name from an address; return True."""
    save(context, without_host(load(context), str(ip), checked_names(alias)))
    return True


@function()
def set_host(context: Context, ip: str, alias: Any, comment: Any = None) -> bool:
    """Set the names of an address; no names remove its line. Return True."""
    names = checked_names(alias) if alias else []
    save(context, with_only(load(context), checked_ip(ip), names))
    return True


@function()
def set_comment(context: Context, ip: str, comment: str) -> bool:
    """Set the comment of an address's line; return False if there is no line."""
    lines = load(context)
    if not any(line.ip == ip for line in lines) or "\n" in str(comment):
        return False
    done = [replace(line, comment=f" {comment}") if line.ip == ip else line for line in lines]
    path = path_of(context)
    content.write(path, content.encode("".join(f"{line.written()}\n" for line in done)))
    return True
