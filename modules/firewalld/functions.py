"""firewalld.*: zones, services and rules of firewalld, of the running one or on disk."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.firewalld.command import asked, named, run, run_offline, valued, zones
from catena.modules.shared.arguments import truth


def _zone(zone: Optional[str], *words: str) -> List[str]:
    return ([f"--zone={named('zone', zone)}"] if zone else []) + list(words)


def _look(context: Context, permanent: Any, *words: str) -> str:
    return asked(context, words, permanent=truth(permanent))


def _change(context: Context, permanent: Any, *words: str) -> str:
    return run(context, words, permanent=truth(permanent)) or "success"


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of firewalld."""
    return run(context, ["--version"], permanent=False)


@function()
def reload_rules(context: Context) -> str:
    """Let a running firewalld read its permanent configuration; "success" if none runs."""
    try:
        return run(context, ["--reload"], permanent=False)
    except CommandExecutionError:
        if is_running(context):
            raise
        return "success"


@function(reads=True)
def is_running(context: Context) -> bool:
    """Return whether firewalld runs."""
    try:
        return run(context, ["--state"], permanent=False) == "running"
    except CommandExecutionError:
        return False


@function()
def make_permanent(context: Context) -> str:
    """Make the running configuration permanent."""
    return run(context, ["--runtime-to-permanent"], permanent=False)


@function(reads=True)
def default_zone(context: Context) -> str:
    """Return the zone of interfaces and sources that no zone names."""
    # firewall-cmd has this option only without --permanent, though it is permanent.
    if is_running(context):
        return run(context, ["--get-default-zone"], permanent=False)
    return run_offline(context, ["--get-default-zone"])


@function()
def set_default_zone(context: Context, zone: str) -> str:
    """Set the default zone, now and permanently."""
    words = [f"--set-default-zone={named('zone', zone)}"]
    if is_running(context):
        return run(context, words, permanent=False) or "success"
    return run_offline(context, words) or "success"


@function(reads=True)
def list_zones(context: Context, permanent: Any = True) -> Dict[str, Dict[str, List[str]]]:
    """Return all zones: {zone: {"services": ["ssh dhcpv6-client"], "rich rules": ["", …], …}}."""
    return zones(_look(context, permanent, "--list-all-zones"))


@function(reads=True)
def get_zones(context: Context, permanent: Any = True) -> List[str]:
    """Return the names of the zones."""
    return _look(context, permanent, "--get-zones").split()


@function(reads=True)
def get_services(context: Context, permanent: Any = True) -> List[str]:
    """Return the names of the services."""
    return _look(context, permanent, "--get-services").split()


@function(reads=True)
def get_icmp_types(context: Context, permanent: Any = True) -> List[str]:
    """Return the names of the ICMP types."""
    return _look(context, permanent, "--get-icmptypes").split()


def _managed(context: Context, option: str, restart: Any) -> str:
    out = run(context, [option], permanent=True) or "success"
    return reload_rules(context) if truth(restart) else out


@function()
def new_zone(context: Context, zone: str, restart: Any = True) -> str:
    """Create a zone; with *restart* let firewalld load it."""
    return _managed(context, f"--new-zone={named('zone', zone)}", restart)


@function()
def delete_zone(context: Context, zone: str, restart: Any = True) -> str:
    """Delete a zone; with *restart* let firewalld forget it."""
    return _managed(context, f"--delete-zone={named('zone', zone)}", restart)


@function()
def new_service(context: Context, name: str, restart: Any = True) -> str:
    """Create a service; with *restart* let firewalld load it."""
    return _managed(context, f"--new-service={named('service', name)}", restart)


@function()
def delete_service(context: Context, name: str, restart: Any = True) -> str:
    """Delete a service; with *restart* let firewalld forget it."""
    return _managed(context, f"--delete-service={named('service', name)}", restart)


@function(reads=True)
def list_all(
    context: Context, zone: Optional[str] = None, permanent: Any = True
) -> Dict[str, Dict[str, List[str]]]:
    """Return a zone, by default the default one, in the form of list_zones."""
    return zones(_look(context, permanent, *_zone(zone, "--list-all")))


@function(reads=True)
def list_services(
    context: Context, zone: Optional[str] = None, permanent: Any = True
) -> List[str]:
    """Return the services of a zone."""
    return _look(context, permanent, *_zone(zone, "--list-services")).split()


@function()
def add_service(
    context: Context, service: str, zone: Optional[str] = None, permanent: Any = True
) -> str:
    """Add a service to a zone."""
    words = _zone(zone, f"--add-service={named('service', service)}")
    return _change(context, permanent, *words)


@function()
def remove_service(
    context: Context, service: str, zone: Optional[str] = None, permanent: Any = True
) -> str:
    """Remove a service from a zone."""
    words = _zone(zone, f"--remove-service={named('service', service)}")
    return _change(context, permanent, *words)


def _of_service(service: str, option: str) -> List[str]:
    return [f"--service={named('service', service)}", option]


@function(reads=True)
def get_service_ports(context: Context, service: str) -> List[str]:
    """Return the ports of a service, as "80/tcp"."""
    return _look(context, True, *_of_service(service, "--get-ports")).split()


@function()
def add_service_port(context: Context, service: str, port: str) -> str:
    """Add a port to a service."""
    return _change(context, True, *_of_service(service, f"--add-port={valued(port)}"))


@function()
def remove_service_port(context: Context, service: str, port: str) -> str:
    """Remove a port from a service."""
    return _change(context, True, *_of_service(service, f"--remove-port={valued(port)}"))


@function(reads=True)
def get_service_protocols(context: Context, service: str) -> List[str]:
    """Return the protocols of a service."""
    return _look(context, True, *_of_service(service, "--get-protocols")).split()


@function()
def add_service_protocol(context: Context, service: str, protocol: str) -> str:
    """Add a protocol to a service."""
    return _change(context, True, *_of_service(service, f"--add-protocol={valued(protocol)}"))


@function()
def remove_service_protocol(context: Context, service: str, protocol: str) -> str:
    """Remove a protocol from a service."""
    return _change(context, True, *_of_service(service, f"--remove-protocol={valued(protocol)}"))


@function(reads=True)
def get_masquerade(context: Context, zone: Optional[str] = None, permanent: Any = True) -> bool:
    """Return whether a zone masquerades."""
    found = list_all(context, zone, permanent)
    return bool(found) and all(one.get("masquerade") == ["yes"] for one in found.values())


@function()
def add_masquerade(context: Context, zone: Optional[str] = None, permanent: Any = True) -> str:
    """Let a zone masquerade."""
    return _change(context, permanent, *_zone(zone, "--add-masquerade"))


@function()
def remove_masquerade(context: Context, zone: Optional[str] = None, permanent: Any = True) -> str:
    """Let a zone no longer masquerade."""
    return _change(context, permanent, *_zone(zone, "--remove-masquerade"))


@function(reads=True)
def list_ports(context: Context, zone: str, permanent: Any = True) -> List[str]:
    """Return the ports of a zone, as "80/tcp"."""
    return _look(context, permanent, *_zone(zone, "--list-ports")).split()


@function()
def add_port(
    context: Context, zone: str, port: str, permanent: Any = True, force_masquerade: Any = False
) -> str:
    """Add a port to a zone."""
    if truth(force_masquerade) and not get_masquerade(context, zone, permanent):
        add_masquerade(context, zone, permanent)
    return _change(context, permanent, *_zone(zone, f"--add-port={valued(port)}"))


@function()
def remove_port(context: Context, zone: str, port: str, permanent: Any = True) -> str:
    """Remove a port from a zone."""
    return _change(context, permanent, *_zone(zone, f"--remove-port={valued(port)}"))


def _forward(src: Any, dest: Any, proto: str, dstaddr: str) -> str:
    parts = f"port={src}:proto={proto}:toport={dest}" + (f":toaddr={dstaddr}" if dstaddr else "")
    return valued(parts)


@function(reads=True)
def list_port_fwd(context: Context, zone: str, permanent: Any = True) -> List[Dict[str, str]]:
    """Return Source port, Protocol, Destination port and Destination address per forwarding."""
    text = _look(context, permanent, *_zone(zone, "--list-forward-ports"))
    return [forwarding(line) for line in text.splitlines() if line.strip()]


def forwarding(line: str) -> Dict[str, str]:
    """Return a forwarding of firewalld's listing, as list_port_fwd does."""
    port, _, rest = line.strip().partition(":proto=")
    protocol, _, rest = rest.partition(":toport=")
    to_port, _, address = rest.partition(":toaddr=")
    return {
        "Source port": port.partition("=")[2],
        "Protocol": protocol,
        "Destination port": to_port,
        "Destination address": address,
    }


@function()
def add_port_fwd(
    context: Context,
    zone: str,
    src: Any,
    dest: Any,
    proto: str = "tcp",
    dstaddr: str = "",
    permanent: Any = True,
    force_masquerade: Any = False,
) -> str:
    """Forward a port of a zone.

    Args:
        context: the host.
        zone: name of the zone.
        src: port that is forwarded.
        dest: port to which it is forwarded.
        proto: tcp or udp.
        dstaddr: address to which it is forwarded; "" for this host.
        permanent: on disk; otherwise until the next reload.
        force_masquerade: let the zone masquerade too.
    """
    if truth(force_masquerade) and not get_masquerade(context, zone, permanent):
        add_masquerade(context, zone, permanent)
    option = f"--add-forward-port={_forward(src, dest, proto, dstaddr)}"
    return _change(context, permanent, *_zone(zone, option))


@function()
def remove_port_fwd(
    context: Context,
    zone: str,
    src: Any,
    dest: Any,
    proto: str = "tcp",
    dstaddr: str = "",
    permanent: Any = True,
) -> str:
    """Stop forwarding a port of a zone; arguments as of add_port_fwd."""
    option = f"--remove-forward-port={_forward(src, dest, proto, dstaddr)}"
    return _change(context, permanent, *_zone(zone, option))


@function(reads=True)
def list_icmp_block(context: Context, zone: str, permanent: Any = True) -> List[str]:
    """Return the ICMP types that a zone blocks."""
    return _look(context, permanent, *_zone(zone, "--list-icmp-blocks")).split()


@function(fails="bool")
def block_icmp(context: Context, zone: str, icmp: str, permanent: Any = True) -> Union[str, bool]:
    """Block an ICMP type in a zone; return False if there is no such type."""
    if icmp not in get_icmp_types(context, permanent):
        return False
    return _change(context, permanent, *_zone(zone, f"--add-icmp-block={valued(icmp)}"))


@function(fails="bool")
def allow_icmp(context: Context, zone: str, icmp: str, permanent: Any = True) -> Union[str, bool]:
    """Allow an ICMP type in a zone; return False if there is no such type."""
    if icmp not in get_icmp_types(context, permanent):
        return False
    return _change(context, permanent, *_zone(zone, f"--remove-icmp-block={valued(icmp)}"))


@function(reads=True)
def get_interfaces(context: Context, zone: str, permanent: Any = True) -> List[str]:
    """Return the network interfaces of a zone."""
    return _look(context, permanent, *_zone(zone, "--list-interfaces")).split()


@function()
def add_interface(context: Context, zone: str, interface: str, permanent: Any = True) -> str:
    """Add a network interface to a zone."""
    return _change(context, permanent, *_zone(zone, f"--add-interface={valued(interface)}"))


@function()
def remove_interface(context: Context, zone: str, interface: str, permanent: Any = True) -> str:
    """Remove a network interface from a zone."""
    return _change(context, permanent, *_zone(zone, f"--remove-interface={valued(interface)}"))


@function(reads=True)
def get_sources(context: Context, zone: str, permanent: Any = True) -> List[str]:
    """Return the source addresses of a zone."""
    return _look(context, permanent, *_zone(zone, "--list-sources")).split()


@function()
def add_source(context: Context, zone: str, source: str, permanent: Any = True) -> str:
    """Add a source address to a zone."""
    return _change(context, permanent, *_zone(zone, f"--add-source={valued(source)}"))


@function()
def remove_source(context: Context, zone: str, source: str, permanent: Any = True) -> str:
    """Remove a source address from a zone."""
    return _change(context, permanent, *_zone(zone, f"--remove-source={valued(source)}"))


@function(reads=True)
def get_rich_rules(context: Context, zone: str, permanent: Any = True) -> List[str]:
    """Return the rich rules of a zone."""
    return _look(context, permanent, *_zone(zone, "--list-rich-rules")).splitlines()


@function()
def add_rich_rule(context: Context, zone: str, rule: str, permanent: Any = True) -> str:
    """Add a rich rule to a zone."""
    return _change(context, permanent, *_zone(zone, f"--add-rich-rule={valued(rule)}"))


@function()
def remove_rich_rule(context: Context, zone: str, rule: str, permanent: Any = True) -> str:
    """Remove a rich rule from a zone."""
    return _change(context, permanent, *_zone(zone, f"--remove-rich-rule={valued(rule)}"))
