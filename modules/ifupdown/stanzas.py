"""Text of /etc/network/interfaces: stanzas read, made of Salt's arguments, and exchanged."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown
from catena.modules.shared.arguments import truth

_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,63}\Z")
#: Words that begin a stanza of ifupdown; see interfaces(5).
_BEGINNINGS = ("auto", "iface", "mapping", "source", "source-directory", "rename", "no-auto-down",
               "no-scripts", "template")  # fmt: skip
#: ifupdown's options by Salt's arguments, in the order in which they are written.
_OPTIONS = {
    "autoconf": "autoconf", "privext": "privext", "dhcp": "dhcp", "hwaddr": "hwaddress",
    "vlan_raw_device": "vlan-raw-device", "address": "address", "addresses": "address",
    "netmask": "netmask", "broadcast": "broadcast", "metric": "metric", "gateway": "gateway",
    "pointopoint": "pointopoint", "scope": "scope", "hostname": "hostname", "media": "media",
    "leasehours": "leasehours", "leasetime": "leasetime", "vendor": "vendor", "client": "client",
    "bootfile": "bootfile", "server": "server", "mode": "mode", "endpoint": "endpoint",
    "dstaddr": "dstaddr", "local": "local", "ttl": "ttl", "mtu": "mtu", "provider": "provider",
    "unit": "unit", "options": "options", "master": "bond-master", "dns": "dns-nameservers",
    "dns_search": "dns-search", "wireless_mode": "wireless-mode", "wpa_conf": "wpa-conf",
    "wpa_driver": "wpa-driver", "wpa_ssid": "wpa-ssid", "wpa_psk": "wpa-psk",
    "wpa_key_mgmt": "wpa-key-mgmt", "wpa_roam": "wpa-roam", "accept_ra": "accept_ra",
    "dad_attempts": "dad-attempts", "up_cmds": "up", "pre_up_cmds": "pre-up",
    "post_up_cmds": "post-up", "down_cmds": "down", "pre_down_cmds": "pre-down",
    "post_down_cmds": "post-down",
}  # fmt: skip
_BOND = {
    "slaves": "bond-slaves", "mode": "bond-mode", "miimon": "bond-miimon",
    "primary": "bond-primary", "updelay": "bond-updelay", "downdelay": "bond-downdelay",
    "lacp_rate": "bond-lacp-rate", "xmit_hash_policy": "bond-xmit-hash-policy",
    "ad_select": "bond-ad-select", "arp_interval": "bond-arp-interval",
    "arp_ip_target": "bond-arp-ip-target", "use_carrier": "bond-use-carrier",
    "fail_over_mac": "bond-fail-over-mac", "max_bonds": "", "primary_reselect":
    "bond-primary-reselect",
}  # fmt: skip
_BRIDGE = {
    "ports": "bridge_ports", "stp": "bridge_stp", "delay": "bridge_fd", "fd": "bridge_fd",
    "maxwait": "bridge_maxwait", "ageing": "bridge_ageing", "hello": "bridge_hello",
    "maxage": "bridge_maxage", "bridgeprio": "bridge_bridgeprio", "waitport": "bridge_waitport",
}  # fmt: skip
_ALIASES = {
    "ipaddr": "address", "addr": "address", "ipaddrs": "addresses", "addrs": "addresses",
    "hwaddress": "hwaddr", "vlan-raw-device": "vlan_raw_device", "dns_nameservers": "dns",
    "dns-nameservers": "dns", "dns-search": "dns_search", "lacp-rate": "lacp_rate",
    "xmit_hash_policy": "xmit_hash_policy", "search": "dns_search", "broadcast": "broadcast",
}  # fmt: skip
#: Values that ifupdown separates by spaces on one line; others get a line each.
_JOINED = frozenset(("dns", "dns_search", "slaves", "ports", "arp_ip_target"))
_PROTOCOLS = ("none", "static", "dhcp", "manual", "loopback", "bootp", "ppp", "wvdial", "ipv4ll",
              "auto", "tunnel", "v4tunnel", "6to4", "can")  # fmt: skip
#: Arguments that are no options of a stanza.
_OWN = frozenset(
    """type enabled noifupdown hotplug proto ipv6proto enable_ipv4 enable_ipv6 test use_in
    peerdns defroute userctl onboot nickname""".split()
)


@dataclass(frozen=True)
class InterfaceStanza:
    """Consecutive lines of the file that belong together."""

    lines: Tuple[str, ...]

    @property
    def words(self) -> List[str]:
        """Return the words of the first line that is no comment."""
        for line in self.lines:
            if line.strip() and not line.lstrip().startswith("#"):
                return line.split()
        return []


def split(text: str) -> List[InterfaceStanza]:
    """Return the stanzas of a file; comments and empty lines are stanzas of their own."""
    found: List[List[str]] = []
    inside = False
    for line in text.splitlines():
        words = line.split()
        begins = bool(words) and (words[0] in _BEGINNINGS or words[0].startswith("allow-"))
        if begins:
            found.append([line])
            inside = words[0] in ("iface", "mapping", "template")
        elif words and inside and not line.startswith("#"):
            found[-1].append(line)
        else:
            found.append([line])
            inside = False if not words else inside and line[:1].isspace()
    return [InterfaceStanza(tuple(lines)) for lines in found]


def name_of(name: Any) -> str:
    """Return *name* if it can be that of an interface.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a network interface")
    return str(name)


def lines_of(text: str, name: str) -> List[str]:
    """Return the lines about an interface, those of `auto` first; [] if there are none."""
    found: List[str] = []
    for stanza in split(text):
        words = stanza.words
        if len(words) < 2:
            continue
        if words[0] == "auto" and name in words[1:]:
            found.append(f"auto {name}")
        elif words[0] == "allow-hotplug" and name in words[1:]:
            found.append(f"allow-hotplug {name}")
        elif words[0] == "iface" and words[1] == name:
            found += [f"iface {' '.join(words[1:])}"]
            inner = (" ".join(line.split()) for line in stanza.lines[1:])
            found += [f"    {line}" for line in inner if line and not line.startswith("#")]
    return found


def exchanged(text: str, name: str, lines: Sequence[str]) -> str:
    """Return a file with other lines about an interface; everything else stays as it is."""
    kept: List[str] = []
    place: Optional[int] = None
    for stanza in split(text):
        words = stanza.words
        mine = len(words) > 1 and words[0] == "iface" and words[1] == name
        if len(words) > 1 and words[0] in ("auto", "allow-hotplug") and name in words[1:]:
            rest = [one for one in words[1:] if one != name]
            if rest:
                kept.append(" ".join([words[0], *rest]))
                continue
            mine = True
        if not mine:
            kept += stanza.lines
        elif place is None:
            place = len(kept)
    if place is None:
        if kept and kept[-1].strip():
            kept.append("")
        place = len(kept)
    result = [*kept[:place], *lines, *kept[place:]]
    return "".join(f"{line}\n" for line in result)


def build(name: str, kind: str, enabled: bool, given: Mapping[str, Any]) -> List[str]:
    """Return the lines about an interface.

    Args:
        name: of the interface.
        kind: eth, bond, bridge, vlan, slave, …
        enabled: bring it up at boot.
        given: Salt's arguments; those that begin with ipv6 are of the family inet6.

    Raises:
        UsageError: an argument is unknown or makes no sense.
    """
    lines = [f"auto {name}"] if enabled else []
    if truth(given.get("hotplug", False)):
        lines.append(f"allow-hotplug {name}")
    four, six = _families(given, kind)
    if truth(given.get("enable_ipv4", True)) and (four or "proto" in given or not six):
        default = "manual" if kind in ("slave", "bridge_port") else "static" if four else "manual"
        lines += _stanza(name, "inet", str(given.get("proto", default)), four)
    if six and truth(given.get("enable_ipv6", True)):
        lines += _stanza(name, "inet6", str(given.get("ipv6proto", "static")), six)
    elif "ipv6proto" in given and truth(given.get("enable_ipv6", True)):
        lines += _stanza(name, "inet6", str(given["ipv6proto"]), {})
    return lines


def _families(given: Mapping[str, Any], kind: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the options of inet and of inet6: {option of ifupdown: value}."""
    table = dict(_OPTIONS)
    special = _BOND if kind == "bond" else _BRIDGE if kind == "bridge" else {}
    table.update({key: word for key, word in special.items() if word})
    four: Dict[str, Any] = {}
    six: Dict[str, Any] = {}
    for key, value in given.items():
        if key in _OWN or key.startswith("__") or value is None:
            continue
        v6 = key.startswith("ipv6")
        plain = key[len("ipv6") :].lstrip("_") if v6 else key
        plain = _ALIASES.get(plain, plain)
        if plain not in table:
            known = [*table, *_ALIASES, *_OWN, *(f"ipv6{one}" for one in ("addr", "gateway"))]
            raise UsageError(unknown("argument of an interface", key, known))
        (six if v6 else four)[plain] = value
    return _ordered(table, four), _ordered(table, six)


def _ordered(table: Mapping[str, str], options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return {argument: (option of ifupdown, value)} in the order of *table*."""
    return {key: (word, options[key]) for key, word in table.items() if key in options}


def _stanza(name: str, family: str, protocol: str, options: Mapping[str, Any]) -> List[str]:
    proto = "manual" if protocol in ("none", "False") else protocol
    if proto not in _PROTOCOLS:
        raise UsageError(unknown("protocol", proto, _PROTOCOLS))
    lines = [f"iface {name} {family} {proto}"]
    for key, (word, value) in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        texts = [_text(key, one) for one in values]
        for text in [" ".join(texts)] if key in _JOINED else texts:
            lines.append(f"    {word} {text}")
    return lines


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        value = ("on" if value else "off") if key == "stp" else int(value)
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{key} can't be a {type(value).__name__}")
    text = " ".join(str(value).split())
    if not text or any(mark in str(value) for mark in "\r\n\0\\"):
        raise UsageError(f"{key}: {str(value)[:80]!r} is not one line of text")
    return text
