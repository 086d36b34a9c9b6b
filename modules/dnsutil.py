"""dnsutil.*: names from this host's resolver and /etc/hosts, and serials of zones."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.files import write_durable
from catena.core.plugins import function
from catena.modules import dig

_LAST = 99


def _resolved(host: str, family: int) -> Union[str, List[str]]:
    try:
        found = socket.getaddrinfo(str(host), None, family, socket.SOCK_RAW)
    except (OSError, UnicodeError):
        return f"Unable to resolve {host}"
    return [str(row[4][0]) for row in found]


@function(name="A", reads=True)
def a_(context: Context, host: str, nameserver: Optional[str] = None) -> Any:
    """Return the IPv4 addresses of a name; with *nameserver*, query that server with dig."""
    return dig.a_(context, host, nameserver) if nameserver else _resolved(host, socket.AF_INET)


@function(name="AAAA", reads=True)
def aaaa(context: Context, host: str, nameserver: Optional[str] = None) -> Any:
    """Return the IPv6 addresses of a name; with *nameserver*, query that server with dig."""
    return dig.aaaa(context, host, nameserver) if nameserver else _resolved(host, socket.AF_INET6)


@function(name="NS", reads=True)
def ns(
    context: Context, domain: str, resolve: bool = True, nameserver: Optional[str] = None
) -> List[str]:
    """Return the name servers of a domain; see dig.NS."""
    return dig.ns(context, domain, resolve, nameserver)


@function(name="MX", reads=True)
def mx(
    context: Context, domain: str, resolve: bool = False, nameserver: Optional[str] = None
) -> List[List[Any]]:
    """Return the mail servers of a domain; see dig.MX."""
    return dig.mx(context, domain, resolve, nameserver)


@function(name="SPF", reads=True)
def spf(
    context: Context, domain: str, record: str = "SPF", nameserver: Optional[str] = None
) -> List[str]:
    """Return the hosts that may send mail for a domain; see dig.SPF."""
    return dig.spf(context, domain, record, nameserver)


@function(inline=True)
def check_ip(context: Context, ip_addr: str) -> bool:
    """Return whether *ip_addr* is an address, IPv4 or IPv6."""
    return dig.check_ip(context, ip_addr)


@function(reads=True)
def parse_hosts(context: Context, hostsfile: str = "/etc/hosts", hosts: Any = None) -> Any:
    """Return the names by address of a hosts file, or of the text *hosts*."""
    found: Dict[str, List[str]] = {}
    for line in (str(hosts) if hosts else _text(hostsfile)).splitlines():
        words = line.partition("#")[0].split()
        if words:
            found.setdefault(words[0], []).extend(words[1:])
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem


@function(reads=True)
def serial(context: Context, zone: str = "", update: bool = False) -> str:
    """Return today's stored serial of a zone (YYYYMMDDNN); with *update*, the next one."""
    from datetime import datetime, timezone

    safe = "".join(one if one.isalnum() or one in ".-" else "_" for one in str(zone)).lstrip(".")
    path = context.host.cache_dir / "dnsutil" / f"serial_{safe}"
    today = datetime.now(timezone.utc).astimezone().strftime("%Y%m%d")
    kept = path.read_text(encoding="ascii").strip() if path.is_file() else ""
    number = int(kept[8:]) if kept.isdigit() and kept[:8] == today else 0
    if number and not update:
        return kept
    made = f"{today}{min(number + 1, _LAST):02d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durable(path, made.encode("ascii"), mode=0o600)
    return made
