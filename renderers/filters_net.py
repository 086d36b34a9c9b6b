"""Salt's filters on addresses, networks, names and web pages."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from jinja2 import pass_context
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Context as Names

_HOST_LIMIT = 65_536
_CONNECT_SECONDS = 2.0
#: Option of the filters -> property of Python's addresses; "!" negates it.
_KINDS = {
    "global": "!is_private",
    "public": "!is_private",
    "link-local": "is_link_local",
    "link_local": "is_link_local",
    "linklocal": "is_link_local",
    "ll": "is_link_local",
    "loopback": "is_loopback",
    "lo": "is_loopback",
    "multicast": "is_multicast",
    "private": "is_private",
    "reserved": "is_reserved",
    "site-local": "is_site_local",
    "site_local": "is_site_local",
    "sl": "is_site_local",
    "unspecified": "is_unspecified",
}


def _address(value: Any, version: int, options: Optional[str] = None) -> Optional[str]:
    """Return *value* in its usual form; None unless it is an address of this kind.

    It may come with its network; it has to be of this version and of all the kinds wanted.
    """
    try:
        found: Any = ipaddress.ip_address(value)
    except ValueError:
        try:
            found = ipaddress.ip_interface(value)
        except ValueError:
            return None
    wanted = [option.strip() for option in options.split(",")] if options else []
    kinds = [_KINDS[option] for option in wanted if option in _KINDS]
    if found.version != version or not all(_is_kind(found, kind) for kind in kinds):
        return None
    return str(found)


def _is_kind(address: Any, kind: str) -> bool:
    return bool(getattr(address, kind.lstrip("!"), False)) != kind.startswith("!")


def _filter(value: Any, version: int, options: Optional[str]) -> Any:
    if isinstance(value, (str, bytes)):
        return _address(value, version, options)
    if isinstance(value, (list, tuple)):
        found = [_address(item, version, options) for item in value]
        return [item for item in found if item is not None]
    return None


def ipv4(value: Any, options: Optional[str] = None) -> Any:
    """Return the IPv4 addresses in *value*."""
    return _filter(value, 4, options)


def ipv6(value: Any, options: Optional[str] = None) -> Any:
    """Return the IPv6 addresses in *value*."""
    return _filter(value, 6, options)


def ipaddr(value: Any, options: Optional[str] = None) -> Any:
    """Return the address, or those of a list, IPv4 first; None for none."""
    four, six = ipv4(value, options), ipv6(value, options)
    return four or six if four is None or six is None else four + six


def is_ipv4(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an IPv4 address, with its network or without."""
    return _address(value, 4, options) is not None


def is_ipv6(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an IPv6 address, with its network or without."""
    return _address(value, 6, options) is not None


def is_ip(value: Any, options: Optional[str] = None) -> bool:
    """Return whether *value* is an address, with its network or without."""
    return is_ipv4(value, options) or is_ipv6(value, options)


def ipwrap(value: Any) -> Any:
    """Return IPv6 addresses in brackets, all else as it is."""
    if isinstance(value, (list, tuple)):
        return [ipwrap(item) for item in value]
    return f"[{str(value).strip('[]')}]" if is_ipv6(value) else value


def _each(
    value: Any, options: Optional[str], version: Optional[int], work: Callable[[str], Any]
) -> Any:
    """Return what *work* makes of the addresses in *value*: one, a list for a list, or None."""
    chosen: Mapping[Any, Callable[..., Any]] = {4: ipv4, 6: ipv6, None: ipaddr}
    found = chosen[version](value, options) if version in chosen else None
    if not found:
        return None
    return [work(item) for item in found] if isinstance(found, list) else work(found)


def ip_host(value: Any, options: Optional[str] = None, version: Optional[int] = None) -> Any:
    """Return an address with the length of its network: 192.168.0.1/28."""
    return _each(value, options, version, lambda found: str(ipaddress.ip_interface(found)))


def network_hosts(value: Any, options: Optional[str] = None, version: Optional[int] = None) -> Any:
    """Return the addresses of hosts in a network, at most 65 536."""
    return _each(value, options, version, _hosts)


def _hosts(address: str) -> List[str]:
    hosts: Iterable[Any] = ipaddress.ip_network(address, strict=False).hosts()
    return [str(host) for host, _ in zip(hosts, range(_HOST_LIMIT))]


def network_size(value: Any, options: Optional[str] = None, version: Optional[int] = None) -> Any:
    """Return how many addresses a network has."""
    return _each(
        value,
        options,
        version,
        lambda found: ipaddress.ip_network(found, strict=False).num_addresses,
    )


def filter_by_networks(values: Any, networks: Optional[Iterable[str]]) -> Any:
    """Return the addresses of a list (or of each list of a mapping) that lie in the networks.

    None as *networks* lets everything pass.
    """
    if networks is None:
        return values
    known = [ipaddress.ip_network(network) for network in networks]

    def inside(addresses: Iterable[str]) -> List[str]:
        return [one for one in addresses for net in known if ipaddress.ip_address(one) in net]

    if isinstance(values, Mapping):
        return {name: inside(addresses) for name, addresses in values.items()}
    if isinstance(values, (list, tuple)):
        return inside(values)
    raise TemplateRuntimeError("filter_by_networks takes a list or a mapping of lists")


def gen_mac(prefix: str = "AC:DE:48") -> str:
    """Return a random MAC address under *prefix* (three bytes)."""
    return ":".join([prefix, *(f"{secrets.randbelow(256):02X}" for _ in range(3))])


def mac_to_bytes(value: str) -> bytes:
    """Return a MAC address, with or without separators, as six bytes."""
    digits = value.replace(value[2], "") if len(value) == 17 else value
    if len(digits) != 12:
        raise TemplateRuntimeError("Invalid MAC address")
    return bytes.fromhex(digits)


def dns_check(
    address: str, port: Union[int, str], safe: bool = False, ipv6: Optional[bool] = None
) -> str:
    """Return the first address of a name that answers on *port*, else its first address.

    IPv6 comes in brackets.

    Args:
        address: a name or an address.
        port: number of a TCP port.
        safe: accepted; the failure is the same.
        ipv6: True: IPv6 first; False: IPv4 only; None: what the system prefers.

    Raises:
        TemplateRuntimeError: the name has no address.
    """
    families = {None: [socket.AF_UNSPEC], False: [socket.AF_INET]}.get(
        ipv6, [socket.AF_INET6, socket.AF_INET]
    )
    for family in families:
        try:
            found = socket.getaddrinfo(address, int(port), family, socket.SOCK_STREAM)
        except OSError:
            continue
        places = {str(info[4][0]): (info[0], info[4]) for info in found}
        answering = (text for text, place in places.items() if _answers(*place))
        chosen = next(answering, next(iter(places)))
        return f"[{chosen}]" if ":" in chosen else chosen
    raise TemplateRuntimeError(f"DNS lookup or connection check of '{address}' failed.")


def _answers(family: int, place: Tuple[Any, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT_SECONDS)
            probe.connect(place)
            return True
    except OSError:
        return False


@pass_context
def http_query(names: Names, url: str, *args: Any, **options: Any) -> Any:
    """Return what salt['http.query'] returns for *url*."""
    return names["salt"]["http.query"](url, *args, **options)


FILTERS: Dict[str, Callable[..., Any]] = {
    "ipaddr": ipaddr,
    "ipv4": ipv4,
    "ipv6": ipv6,
    "is_ip": is_ip,
    "is_ipv4": is_ipv4,
    "is_ipv6": is_ipv6,
    "ipwrap": ipwrap,
    "ip_host": ip_host,
    "network_hosts": network_hosts,
    "network_size": network_size,
    "filter_by_networks": filter_by_networks,
    "gen_mac": gen_mac,
    "mac_str_to_bytes": mac_to_bytes,
    "dns_check": dns_check,
    "http_query": http_query,
}
