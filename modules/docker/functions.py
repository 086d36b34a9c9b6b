"""docker.*: functions about networks, volumes and the program itself; the others are imported."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.modules.docker.command import ask, find, inspect, named, program
from catena.modules.docker.containers import (
    commit,
    create,
    exists,
    inspect_container,
    kill,
    list_containers,
    logs,
    names_of,
    pause,
    ps,
    rename,
    restart,
    rm_,
    run,
    signal_,
    start,
    state,
    stop,
    unpause,
)
from catena.modules.docker.images import (
    build,
    image_exists,
    images,
    inspect_image,
    list_tags,
    load,
    login,
    logout,
    pull,
    push,
    resolve_image_id,
    resolve_tag,
    rmi,
    save,
    tag_,
)
from catena.modules.shared.arguments import listed, mapped, truth

__all__ = [
    "build", "commit", "create", "exists", "image_exists", "images", "inspect_container",
    "inspect_image", "kill", "list_containers", "list_tags", "load", "login", "logout", "logs",
    "names_of", "pause", "ps", "pull", "push", "rename", "resolve_image_id", "resolve_tag",
    "restart", "rm_", "rmi", "run", "save", "signal_", "start", "state", "stop", "tag_", "unpause",
]  # fmt: skip


@function(reads=True)
def version(context: Context) -> Dict[str, Any]:
    """Return the program, docker or podman, and its version."""
    name = program(context)
    return {"Program": name, "Version": ask(context, ["--version"]).split()[-1].strip(",")}


@function(reads=True)
def networks(context: Context, names: Any = None) -> List[Dict[str, Any]]:
    """Return docker's descriptions of all networks, or of those with *names*."""
    wanted = [named(one, "network") for one in listed(names)]
    known = ask(context, ["network", "ls", "--format", "{{.Name}}"]).split()
    return inspect(context, "network", [one for one in known if not wanted or one in wanted])


@function(reads=True)
def inspect_network(context: Context, name: str) -> Dict[str, Any]:
    """Return docker's description of a network."""
    return inspect(context, "network", [named(name, "network")])[0]


@function(reads=True)
def network_exists(context: Context, name: str) -> bool:
    """Return whether there is a network."""
    return find(context, "network", named(name, "network")) is not None


def _pairs(option: str, values: Any) -> List[str]:
    found: List[str] = []
    for key, value in mapped(values).items():
        found += [option, f"{key}={value}" if value is not None else str(key)]
    return found


def network_words(
    driver: Optional[str] = None,
    driver_opts: Any = None,
    gateway: Optional[str] = None,
    ip_range: Optional[str] = None,
    subnet: Optional[str] = None,
    internal: Any = False,
    enable_ipv6: Any = False,
    labels: Any = None,
) -> List[str]:
    """Return the options of `docker network create`."""
    words = ["--driver", str(driver)] if driver else []
    for option, value in (("--gateway", gateway), ("--ip-range", ip_range), ("--subnet", subnet)):
        words += [option, str(value)] if value else []
    words += ["--internal"] if truth(internal) else []
    words += ["--ipv6"] if truth(enable_ipv6) else []
    return [*words, *_pairs("--opt", driver_opts), *_pairs("--label", labels)]


@function()
def create_network(context: Context, /, name: str, **options: Any) -> bool:
    """Create a network; return True.

    Args:
        context: the host.
        name: of the network.
        options: driver, driver_opts, gateway, ip_range, subnet, internal, enable_ipv6, labels.
    """
    try:
        words = network_words(**options)
    except TypeError as problem:
        raise UsageError(f"docker.create_network: {problem}") from None
    ask(context, ["network", "create", *words, named(name, "network")])
    return True


@function()
def remove_network(context: Context, name: str) -> bool:
    """Remove a network; return True."""
    ask(context, ["network", "rm", named(name, "network")])
    return True


@function()
def connect_container_to_network(context: Context, container: str, net_id: str) -> bool:
    """Connect a container to a network; return True."""
    ask(context, ["network", "connect", named(net_id, "network"), named(container)])
    return True


@function()
def disconnect_container_from_network(context: Context, container: str, network_id: str) -> bool:
    """Disconnect a container from a network; return True."""
    ask(context, ["network", "disconnect", "--force", named(network_id, "network"),
                  named(container)])  # fmt: skip
    return True


@function(reads=True)
def volumes(context: Context) -> List[Dict[str, Any]]:
    """Return docker's descriptions of all volumes."""
    known = ask(context, ["volume", "ls", "--quiet"]).split()
    return inspect(context, "volume", known)


@function(reads=True)
def inspect_volume(context: Context, name: str) -> Dict[str, Any]:
    """Return docker's description of a volume."""
    return inspect(context, "volume", [named(name, "volume")])[0]


@function(reads=True)
def volume_exists(context: Context, name: str) -> bool:
    """Return whether there is a volume."""
    return find(context, "volume", named(name, "volume")) is not None


@function()
def create_volume(
    context: Context, name: str, driver: Optional[str] = None, driver_opts: Any = None
) -> bool:
    """Create a volume; return True."""
    words = ["--driver", str(driver)] if driver else []
    ask(context, ["volume", "create", *words, *_pairs("--opt", driver_opts),
                  named(name, "volume")])  # fmt: skip
    return True


@function()
def remove_volume(context: Context, name: str) -> bool:
    """Remove a volume; return True."""
    ask(context, ["volume", "rm", named(name, "volume")])
    return True
