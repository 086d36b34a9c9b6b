"""docker_network.*: networks of docker or podman."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import listed, mapped, take, truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


@dataclass(frozen=True)
class _NetworkOptions:
    """Keyword arguments of docker_network.present, with Salt's names."""

    driver: Optional[str] = None
    driver_opts: Any = None
    gateway: Optional[str] = None
    ip_range: Optional[str] = None
    subnet: Optional[str] = None
    internal: Any = None
    enable_ipv6: Any = None
    labels: Any = None
    containers: Any = None
    reconnect: Any = True
    #: Arguments that only docker-py needs.
    skip_translate: Any = None
    ignore_collisions: Any = None
    validate_ip_addrs: Any = None


def _shape(found: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the settings of an inspected network, of docker or podman, under Salt's names."""
    low = {str(key).lower(): value for key, value in found.items()}
    pools = (low.get("ipam") or {}).get("Config") or low.get("subnets") or [{}]
    pool = {str(key).lower(): value for key, value in pools[0].items()}
    lease = pool.get("lease_range") or {}
    return {
        "driver": low.get("driver"),
        "driver_opts": low.get("options") or {},
        "internal": bool(low.get("internal")),
        "enable_ipv6": bool(low.get("enableipv6", low.get("ipv6_enabled"))),
        "labels": low.get("labels") or {},
        "subnet": pool.get("subnet"),
        "gateway": pool.get("gateway"),
        "ip_range": pool.get("iprange") or lease.get("start_ip"),
    }


def _differences(wanted: Mapping[str, Any], present: Mapping[str, Any]) -> Dict[str, Any]:
    """Return {setting: {old, new}} for each given setting that the network has not."""
    found: Dict[str, Any] = {}
    for key, value in wanted.items():
        old = present.get(key)
        if key in ("labels", "driver_opts"):
            texts = {str(name): str(item) for name, item in value.items()}
            same = all((old or {}).get(name) == item for name, item in texts.items())
        elif key == "ip_range":
            same = old is not None and str(value).split("/")[0] == str(old).split("/")[0]
        else:
            same = old == value
        if not same:
            found[key] = {"old": old, "new": value}
    return found


@state()
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a network with this configuration exists; one that differs is replaced.

    Args:
        context: the call's context.
        name: of the network.
        arguments: driver, driver_opts, subnet, gateway, ip_range, internal, enable_ipv6, labels;
            containers: names that are connected to it; reconnect (True): connect those again that
            a replacement disconnects.
    """
    try:
        given = take(_NetworkOptions, arguments, "docker_network.present")
        wanted = _wanted(given)
        found = None
        if context.call("docker.network_exists", name):
            found = context.call("docker.inspect_network", name)
        differences = _differences(wanted, _shape(found)) if found else {}
        joining = _joining(context, name, given)
        if found is not None and not differences and not joining:
            told = f"Network '{name}' already exists, and is configured as specified"
            return done(told)
        if context.test:
            return _would(name, found is None, differences, joining)
        return _made(context, name, wanted, found is None, differences, joining, given)
    except _REFUSALS as problem:
        return failed(f"Failed to create network '{name}': {problem}")


def _wanted(given: _NetworkOptions) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for key in ("driver", "gateway", "ip_range", "subnet"):
        if getattr(given, key):
            found[key] = str(getattr(given, key))
    for key in ("internal", "enable_ipv6"):
        if getattr(given, key) is not None:
            found[key] = truth(getattr(given, key))
    for key in ("labels", "driver_opts"):
        if getattr(given, key):
            found[key] = mapped(getattr(given, key))
    return found


def _members(context: Context, name: str) -> List[str]:
    """Return the names of the containers that are connected to a network."""
    found = []
    for one in context.call("docker.list_containers", True):
        inspected = context.call("docker.inspect_container", one)
        networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
        if name in networks:
            found.append(one)
    return found


def _joining(context: Context, name: str, given: _NetworkOptions) -> List[str]:
    """Return the containers that have to be connected."""
    asked = [str(one) for one in listed(given.containers)]
    if not asked:
        return []
    members = _members(context, name)
    return [one for one in asked if one not in members]


def _would(
    name: str, new: bool, differences: Mapping[str, Any], joining: Sequence[str]
) -> StateResult:
    if new:
        return would("Network will be created")
    if differences:
        return would("Network would be recreated with new config", {name: dict(differences)})
    return would(f"Containers would be connected: {', '.join(joining)}")


def _made(
    context: Context,
    name: str,
    wanted: Mapping[str, Any],
    new: bool,
    differences: Mapping[str, Any],
    joining: Sequence[str],
    given: _NetworkOptions,
) -> StateResult:
    changes: Dict[str, Any] = {name: dict(differences)} if differences else {}
    comment = f"Network '{name}' was connected to containers"
    back: List[str] = []
    if differences:
        back = _members(context, name)
        for one in back:
            context.call("docker.disconnect_container_from_network", one, name)
        context.call("docker.remove_network", name)
    if new or differences:
        context.call("docker.create_network", name, **wanted)
        changes["created" if new else "recreated"] = True
        what = "created" if new else "was replaced with updated config"
        comment = f"Network '{name}' {what}"
    for key, names in (("reconnected", back if truth(given.reconnect) else []),
                       ("connected", [one for one in joining if one not in back])):  # fmt: skip
        for one in names:
            context.call("docker.connect_container_to_network", one, name)
            changes.setdefault(key, []).append(one)
    return done(comment, changes)


@state()
def absent(context: Context, name: str) -> StateResult:
    """Make sure that a network does not exist; containers are disconnected from it."""
    try:
        if not context.call("docker.network_exists", name):
            return done(f"Network '{name}' already absent")
        if context.test:
            return would(f"Network '{name}' will be removed")
        changes: Dict[str, Any] = {"removed": True}
        members = _members(context, name)
        for one in members:
            context.call("docker.disconnect_container_from_network", one, name)
        context.call("docker.remove_network", name)
    except _REFUSALS as problem:
        return failed(f"Failed to remove network: {problem}")
    if members:
        changes["disconnected"] = members
    return done(f"Removed network '{name}'", changes)
