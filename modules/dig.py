"""dig.*: DNS lookups with the program dig."""

from __future__ import annotations

import ipaddress
from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

_SECONDS = 60


def ask(context: Context, host: str, kind: str, server: Optional[str] = None) -> List[str]:
    """Return the lines of dig's short answer.

    Raises:
        UsageError: *host* or *server* is no name.
        CommandExecutionError: dig is not installed, or gets no answer.
    """
    for name in (host, server or ""):
        if name.startswith(("-", "+", "@")) or any(character.isspace() for character in name):
            raise UsageError(f"{name!r} is no host name")
    words = ["dig", *([f"@{server}"] if server else []), "+short", host, kind]
    try:
        ran = run(context, words, RunOptions(python_shell=False, timeout=_SECONDS))
    except CommandExecutionError as problem:
        raise CommandExecutionError(f"dig is needed to look up {host}: {problem}") from None
    if ran.retcode:
        raise CommandExecutionError(f"dig {host}: {ran.stderr or ran.stdout}")
    return [line for line in ran.stdout.splitlines() if line]


@function(inline=True)
def check_ip(context: Context, addr: str) -> bool:
    """Return whether *addr* is an address, IPv4 or IPv6."""
    try:
        ipaddress.ip_address(str(addr))
    except ValueError:
        return False
    return True


def _addresses(context: Context, found: List[str]) -> List[str]:
    return [line for line in found if check_ip(context, line)]


@function(name="A", reads=True)
def a_(context: Context, host: str, nameserver: Optional[str] = None) -> List[str]:
    """Return the IPv4 addresses of a name."""
    return _addresses(context, ask(context, host, "A", nameserver))


@function(name="AAAA", reads=True)
def aaaa(context: Context, host: str, nameserver: Optional[str] = None) -> List[str]:
    """Return the IPv6 addresses of a name."""
    return _addresses(context, ask(context, host, "AAAA", nameserver))


@function(name="CNAME", reads=True)
def cname(context: Context, host: str, nameserver: Optional[str] = None) -> List[str]:
    """Return the canonical name of an alias."""
    return ask(context, host, "CNAME", nameserver)


@function(name="NS", reads=True)
def ns(
    context: Context, domain: str, resolve: bool = True, nameserver: Optional[str] = None
) -> List[str]:
    """Return the name servers of a domain, as addresses with *resolve*."""
    names = ask(context, domain, "NS", nameserver)
    if not resolve:
        return names
    return [address for name in names for address in a_(context, name, nameserver)]


@function(name="PTR", reads=True)
def ptr(context: Context, host: str, nameserver: Optional[str] = None) -> List[str]:
    """Return the names of an address."""
    try:
        name = ipaddress.ip_address(str(host)).reverse_pointer
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    return ask(context, name, "PTR", nameserver)


@function(name="MX", reads=True)
def mx(
    context: Context, domain: str, resolve: bool = False, nameserver: Optional[str] = None
) -> List[List[Any]]:
    """Return the [preference, host] of a domain's mail servers, addresses with *resolve*."""
    found = [line.split() for line in ask(context, domain, "MX", nameserver)]
    pairs: List[List[Any]] = [words for words in found if len(words) == 2]
    if resolve:
        return [[rank, (a_(context, name, nameserver) or [""])[0]] for rank, name in pairs]
    return pairs


@function(name="TXT", reads=True)
def txt(context: Context, host: str, nameserver: Optional[str] = None) -> List[str]:
    """Return the TXT records of a name."""
    return ask(context, host, "TXT", nameserver)


@function(name="SPF", reads=True)
def spf(
    context: Context, domain: str, record: str = "SPF", nameserver: Optional[str] = None
) -> List[str]:
    """Return the IPv4 addresses and networks that may send mail for a domain."""
    texts = [line.strip('"') for line in ask(context, domain, "TXT", nameserver)]
    words = [word for text in texts if text.startswith("v=spf") for word in text.split()]
    return [word.partition(":")[2] for word in words if word.lstrip("+").startswith("ip4:")]
