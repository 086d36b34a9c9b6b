"""Which addresses outgoing HTTP may connect to, and the resolution of host names."""

from __future__ import annotations

import errno
import re
import socket
import threading
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import FrozenSet, List, NamedTuple, Optional, Tuple, Union

from catena.core.errors import ConfigError, NotAllowedError, UnreachableError
from catena.core.frozen import dataclass, field

Address = Union[IPv4Address, IPv6Address]

#: IPv6 prefixes that embed an IPv4 address, and the offset of that address in the 16 bytes.
_CARRIERS = (
    (ip_network("64:ff9b::/96"), 12),  # NAT64
    (ip_network("2002::/16"), 2),  # 6to4
    (ip_network("::/96"), 12),  # IPv4-compatible, obsolete
)
#: Metadata services of clouds whose addresses are not link-local: of AWS and Google over IPv6, of
#: Alibaba and Oracle over IPv4.
_METADATA = frozenset(
    ip_address(one) for one in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192")
)
#: A number that inet_aton() accepts as an IPv4 address: decimal, octal or hexadecimal.
_NUMERIC = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+))*\.?\Z")


class AddressRefusedError(NotAllowedError):
    """Outgoing HTTP must not connect to this address."""


class ListenAddress(NamedTuple):
    """An address and port on which a process of this master listens."""

    #: An IP address. "0.0.0.0", "::", "*" or an interface name stands for every local address.
    host: str
    port: int

    @classmethod
    def of(cls, endpoint: str) -> ListenAddress:
        """Return the listener of a ZeroMQ address: "tcp://0.0.0.0:4505", "tcp://[::1]:4505"."""
        host, _, port = endpoint.partition("://")[2].rpartition(":")
        return cls(host.strip("[]"), int(port))


class ResolvedAddress(NamedTuple):
    """An address to connect to, as `socket.getaddrinfo` returns it."""

    family: int
    #: Address, port, and for IPv6 flow and scope.
    sockaddr: Tuple[object, ...]


@dataclass(frozen=True)
class AddressRules:
    """Which addresses one user of outgoing HTTP may connect to.

    Refused are link-local addresses, the metadata services of clouds (most of which are
    link-local), the unspecified address, multicast, and everything on which this master listens.

    Args:
        listeners: where this master and its API listen. No allow-list permits them.
        allowed: networks ("169.254.3.0/24", "fe80::/10") that this user may connect to although
            they are link-local (management controllers have such addresses) or a cloud's.

    Raises:
        ConfigError: an entry of *allowed* is not a network.
    """

    listeners: Tuple[ListenAddress, ...] = ()
    allowed: Tuple[str, ...] = field(default=())

    def check(self, host: str, port: int) -> None:
        """Check one IP address.

        Raises:
            AddressRefusedError: outgoing HTTP must not connect to it.
        """
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        scope = host.partition("%")[2]
        for address in _meanings(host):
            if address.is_unspecified or address.is_multicast:
                raise AddressRefusedError(f"{shown} is no address of one host")
            if any(_is_listener(one, address, scope, port) for one in self.listeners):
                raise AddressRefusedError(f"this master itself listens on {shown}")
            if address.is_link_local and not self._is_allowed(address):
                raise AddressRefusedError(f"{shown} is link-local and not allowed here")
            if address in _METADATA and not self._is_allowed(address):
                raise AddressRefusedError(f"{shown} is a cloud's metadata service")

    def _is_allowed(self, address: Address) -> bool:
        for text in self.allowed:
            try:
                network = ip_network(text, strict=False)
            except ValueError as error:
                raise ConfigError(f"{text!r} is no network: {error}") from None
            if address.version == network.version and address in network:
                return True
        return False


def _meanings(host: str) -> FrozenSet[Address]:
    """Return the address *host* and the IPv4 address embedded in it, if any."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv4Address):
        return frozenset({address})
    if address.ipv4_mapped is not None:
        # For an IPv4-mapped address the kernel connects to the IPv4 address.
        return frozenset({address.ipv4_mapped})
    found: List[Address] = [address]
    for network, place in _CARRIERS:
        if address in network and int(address) > 1:
            found.append(IPv4Address(address.packed[place : place + 4]))
    return frozenset(found)


def _is_listener(listener: ListenAddress, address: Address, scope: str, port: int) -> bool:
    if listener.port != port:
        return False
    if not _is_address(listener.host):
        return _is_own(address, scope)
    own = ip_address(listener.host.partition("%")[0])
    return _is_own(address, scope) if own.is_unspecified else own == address


def _is_own(address: Address, scope: str) -> bool:
    """Return whether *address* belongs to this host: whether the kernel lets a socket bind it."""
    if address.is_loopback:
        return True
    try:
        if isinstance(address, IPv4Address):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((str(address), 0))
        else:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
                probe.bind((str(address), 0, 0, _interface(scope)))
    except OSError as error:
        # Only these errors prove that no interface has the address; others are inconclusive.
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL)
    return True


def _interface(scope: str) -> int:
    """Return the index of the interface named by an address scope, or 0 if there is none."""
    if not scope or scope.isdigit():
        return int(scope or 0)
    return socket.if_nametoindex(scope)


def refuse_ambiguous(host: str) -> None:
    """Refuse a number that some programs read as an IP address: "2130706433", "0177.1".

    Raises:
        AddressRefusedError: *host* is such a number.
    """
    if _NUMERIC.match(host) and not _is_address(host):
        raise AddressRefusedError(f"{host} is no IP address in its usual form")


def resolve(host: str, port: int, rules: AddressRules, seconds: float) -> List[ResolvedAddress]:
    """Return the addresses of *host* after checking each of them.

    The caller connects to exactly these addresses without another lookup, so a name server cannot
    substitute another address after the check.

    Args:
        host: a name, or an IP address without brackets.
        port: TCP port.
        rules: checked against every address of *host*.
        seconds: time limit of the lookup.

    Raises:
        AddressRefusedError: an address is refused, or *host* is a number that stands for one.
        UnreachableError: the name is unknown, or no name server answered in time.
    """
    refuse_ambiguous(host)
    found = _looked_up(host, port, seconds)
    for one in found:
        rules.check(str(one.sockaddr[0]), port)
    return found


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _looked_up(host: str, port: int, seconds: float) -> List[ResolvedAddress]:
    """Resolve *host* in a thread of its own, because getaddrinfo() has no time limit."""
    answer: List[ResolvedAddress] = []
    failure: List[Optional[Exception]] = [None]

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.extend(ResolvedAddress(row[0], row[4]) for row in rows)
        except (OSError, UnicodeError) as error:
            failure[0] = error

    if _is_address(host):
        ask()
    else:
        thread = threading.Thread(target=ask, name="resolve", daemon=True)
        thread.start()
        thread.join(max(0.0, seconds))
        if thread.is_alive():
            raise UnreachableError(f"{host}: no name server answered within {seconds:.0f} s")
    if failure[0] is not None or not answer:
        raise UnreachableError(f"{host}: unknown name ({failure[0]})")
    return list(dict.fromkeys(answer))
