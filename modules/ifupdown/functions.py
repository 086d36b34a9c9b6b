"""ip.*: interfaces, routes and global settings of the network in the files of ifupdown."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.ifupdown import stanzas
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth

_FOLDER = Path("/etc/network")
_SETTINGS = Path("/etc/default/networking")
_HOSTNAME = Path("/etc/hostname")
_RESOLV = Path("/etc/resolv.conf")
_DEVICES = Path("/sys/class/net")
_PACKAGE = "ifupdown"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_ROUTE_KEYS = ("name", "ipaddr", "netmask", "gateway", "metric")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as problem:
        raise CommandExecutionError(f"cannot read {path}: {problem.strerror}") from problem


def _write(path: Path, text: str, mode: str = "0644") -> None:
    from catena.modules.file.content import encode, write

    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as problem:
        raise CommandExecutionError(f"cannot make {path.parent}: {problem.strerror}") from problem
    write(path, encode(text), mode)


def _responsible(context: Context) -> None:
    """Refuse a host that has no ifupdown.

    Raises:
        CommandExecutionError: the files would have no effect.
    """
    if context.grains.get("os_family") != "Debian":
        raise CommandExecutionError(
            "only the files of Debian's ifupdown are written; on this system manage those of "
            "NetworkManager with file.managed"
        )
    if not _FOLDER.is_dir():
        raise CommandExecutionError(
            f"{_FOLDER} does not exist: install the package {_PACKAGE}, or manage the files of "
            "netplan or NetworkManager with file.managed"
        )


def _file_of(name: str) -> Path:
    """Return the file that has an interface; the main one if none has it."""
    main = _FOLDER / "interfaces"
    more = sorted((_FOLDER / "interfaces.d").glob("*")) if main.parent.is_dir() else []
    for path in (main, *(one for one in more if one.is_file())):
        if stanzas.lines_of(_text(path), name):
            return path
    return main


@function(reads=True)
def get_interface(context: Context, iface: str) -> List[str]:
    """Return the lines about an interface in /etc/network/interfaces; [] for none."""
    name = stanzas.name_of(iface)
    return [f"{line}\n" for line in stanzas.lines_of(_text(_file_of(name)), name)]


@function(reads=True)
def preview_interface(
    context: Context, /, iface: str, iface_type: str, enabled: Any, **settings: Any
) -> List[str]:
    """Return the lines that ip.build_interface would write; its arguments."""
    _responsible(context)
    lines = stanzas.build(stanzas.name_of(iface), iface_type, truth(enabled), settings)
    return [f"{line}\n" for line in lines]


@function()
def build_interface(
    context: Context, /, iface: str, iface_type: str, enabled: Any, **settings: Any
) -> List[str]:
    """Write the lines about an interface and return them; other interfaces stay as they are.

    Args:
        context: the host.
        iface: name of the interface.
        iface_type: eth, bond, bridge, vlan or slave.
        enabled: bring it up at boot.
        settings: proto, ipaddr, netmask, gateway, dns, mtu, hwaddr, ipv6addr, slaves, ports, …

    Raises:
        CommandExecutionError: this host has no ifupdown, or the file can't be written.
        UsageError: an argument is unknown or makes no sense.
    """
    made = preview_interface(context, iface, iface_type, enabled, **settings)
    if made != get_interface(context, iface):
        path = _file_of(iface)
        lines = [line.rstrip("\n") for line in made]
        _write(path, stanzas.exchanged(_text(path), iface, lines))
    return made


def _scripts(iface: str) -> Tuple[Path, Path]:
    name = stanzas.name_of(iface)
    return _FOLDER / f"if-up.d/route-{name}", _FOLDER / f"if-down.d/route-{name}"


@function(reads=True)
def get_routes(context: Context, iface: str) -> List[str]:
    """Return the lines of the scripts that set and remove an interface's routes."""
    return [line for path in _scripts(iface) for line in _text(path).splitlines(keepends=True)]


def _route_text(iface: str, verb: str, routes: Any) -> str:
    if not isinstance(routes, (list, tuple)) or not routes:
        raise UsageError("routes must be a list of mappings")
    lines = ["#!/bin/sh", f"# {verb}", f'test "${{IFACE}}" = "{iface}" || exit 0']
    for number, route in enumerate(routes, 1):
        if not isinstance(route, Mapping):
            raise UsageError("routes must be a list of mappings")
        for key in route:
            if key not in _ROUTE_KEYS:
                raise UsageError(f"route {number}: {unknown('key', str(key), _ROUTE_KEYS)}")
        lines += [f"# {' '.join(str(route['name']).split())}"] if route.get("name") else []
        lines.append(_route(iface, verb, number, route))
    return "".join(f"{line}\n" for line in lines)


def _route(iface: str, verb: str, number: int, route: Mapping[str, Any]) -> str:
    """Return the command of one route; all its parts are addresses or numbers."""
    try:
        to = str(route.get("ipaddr", "default"))
        if to != "default":
            mask = route.get("netmask")
            to = str(ip_network(f"{to}/{mask}" if mask else to, strict=False))
        six = ["-6"] if ":" in to else []
        words = ["ip", *six, "route", verb, to]
        if route.get("gateway"):
            words += ["via", str(ip_address(str(route["gateway"])))]
        words += ["dev", iface]
        if route.get("metric") is not None:
            words += ["metric", str(int(route["metric"]))]
    except (ValueError, TypeError) as problem:
        raise UsageError(f"route {number}: {problem}") from None
    return " ".join(words)


@function(reads=True)
def preview_routes(context: Context, /, iface: str, **settings: Any) -> List[str]:
    """Return the lines that ip.build_routes would write; its arguments."""
    _responsible(context)
    name = stanzas.name_of(iface)
    texts = [_route_text(name, verb, settings.get("routes")) for verb in ("add", "del")]
    return [line for text in texts for line in text.splitlines(keepends=True)]


@function()
def build_routes(context: Context, /, iface: str, **settings: Any) -> List[str]:
    """Write the scripts that set and remove an interface's routes; return their lines.

    Args:
        context: the host.
        iface: name of the interface.
        settings: routes, a list of {name, ipaddr, netmask, gateway, metric}.
    """
    made = preview_routes(context, iface, **settings)
    if made != get_routes(context, iface):
        for path, verb in zip(_scripts(iface), ("add", "del")):
            _write(path, _route_text(iface, verb, settings.get("routes")), "0755")
            path.chmod(0o755)
    return made


def _setting(text: str, key: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(f"{key}=")]
    return found[-1].partition("=")[2].strip("\"' ") if found else ""


def _resolver(key: str) -> str:
    lines = [line.split(None, 1) for line in _text(_RESOLV).splitlines()]
    return next((one[1].strip() for one in lines if len(one) == 2 and one[0] == key), "")


@function(reads=True)
def get_network_settings(context: Context) -> List[str]:
    """Return NETWORKING, HOSTNAME, DOMAIN and SEARCH as lines KEY=VALUE."""
    found = {
        "NETWORKING": _setting(_text(_SETTINGS), "CONFIGURE_INTERFACES") or "yes",
        "HOSTNAME": _text(_HOSTNAME).strip(),
        "DOMAIN": _resolver("domain"),
        "SEARCH": _resolver("search"),
    }
    return [f"{key}={value}\n" for key, value in found.items() if value]


def _wanted(settings: Mapping[str, Any]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    if "enabled" in settings:
        found["NETWORKING"] = "yes" if truth(settings["enabled"]) else "no"
    for key, shown in (("hostname", "HOSTNAME"), ("domain", "DOMAIN"), ("search", "SEARCH")):
        value = settings.get(key)
        if not value:
            continue
        text = " ".join(str(one) for one in value) if isinstance(value, list) else str(value)
        if not all(_HOST.match(one) for one in text.split()) or not text.split():
            raise UsageError(f"{key}: {text[:80]!r} can't be the name of a host")
        found[shown] = text
    return found


@function(reads=True)
def preview_network_settings(context: Context, /, **settings: Any) -> List[str]:
    """Return the lines that ip.get_network_settings would return afterwards."""
    _responsible(context)
    present = dict(line.rstrip("\n").split("=", 1) for line in get_network_settings(context))
    return [f"{key}={value}\n" for key, value in {**present, **_wanted(settings)}.items()]


@function()
def build_network_settings(context: Context, /, **settings: Any) -> List[str]:
    """Write global settings of the network: enabled, hostname, domain, search; return them all.

    Raises:
        CommandExecutionError: this host has no ifupdown, or a file can't be written.
    """
    made = preview_network_settings(context, **settings)
    for key, value in _wanted(settings).items():
        if f"{key}={value}\n" in get_network_settings(context):
            continue
        if key == "NETWORKING":
            lines = [one for one in _text(_SETTINGS).splitlines()
                     if not one.startswith("CONFIGURE_INTERFACES=")]  # fmt: skip
            lines.append(f"CONFIGURE_INTERFACES={value}")
            _write(_SETTINGS, "".join(f"{line}\n" for line in lines))
        elif key == "HOSTNAME":
            _write(_HOSTNAME, f"{value}\n")
        else:
            _resolve(key.lower(), value)
    return made


def _resolve(key: str, value: str) -> None:
    if _RESOLV.is_symlink():
        raise CommandExecutionError(
            f"{_RESOLV} is a link, another program writes it: set {key} there"
        )
    lines = [one for one in _text(_RESOLV).splitlines() if one.split()[:1] != [key]]
    _write(_RESOLV, "".join(f"{line}\n" for line in [f"{key} {value}", *lines]))


@function()
def apply_network_settings(context: Context, /, **settings: Any) -> bool:
    """Restart the service networking, unless `noifupdown` or `require_reboot` is given."""
    if truth(settings.get("noifupdown")) or truth(settings.get("require_reboot")):
        return True
    return bool(context.call("service.restart", "networking"))


@function()
def up(context: Context, iface: str, iface_type: str = "eth") -> str:
    """Bring up an interface; return what ifup prints."""
    words = ["ifup", "--", stanzas.name_of(iface)]
    return programs.need(context, words, _PACKAGE, timeout=300)


@function()
def down(context: Context, iface: str, iface_type: str = "eth") -> str:
    """Bring down an interface; return what ifdown prints."""
    words = ["ifdown", "--", stanzas.name_of(iface)]
    return programs.need(context, words, _PACKAGE, timeout=300)


@function(reads=True)
def is_up(context: Context, iface: str) -> bool:
    """Return whether an interface is up."""
    path = _DEVICES / stanzas.name_of(iface) / "flags"
    try:
        return bool(int(path.read_text(encoding="ascii"), 16) & 1)
    except (OSError, ValueError):
        return False
