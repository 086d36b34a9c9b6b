"""network.*: interfaces, routes and global settings of the network, with Debian's ifupdown."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Mapping, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


def _difference(old: Sequence[str], new: Sequence[str]) -> str:
    lines = difflib.unified_diff([one.rstrip("\n") for one in old],
                                 [one.rstrip("\n") for one in new], lineterm="")  # fmt: skip
    return "\n".join(lines)


@state()
def managed(
    context: Context, /, name: str, enabled: Any = True, type: str = "eth", **settings: Any
) -> StateResult:
    """Make sure that an interface is configured in /etc/network/interfaces, and up or down.

    Args:
        context: the call's context.
        name: of the interface.
        enabled: up, now and at boot.
        type: eth, bond, bridge, vlan or slave.
        settings: proto (static, dhcp, manual), ipaddr, netmask, gateway, dns, mtu, hwaddr, slaves
            and mode (bond), ports (bridge), ipv6proto, ipv6addr, up_cmds …; noifupdown: only
            write the file.
    """
    if type == "source":
        return failed("network.managed of type source: write the line with file.append")
    options = {key: value for key, value in settings.items() if key != "test"}
    try:
        old = context.call("ip.get_interface", name)
        new = context.call("ip.preview_interface", name, type, enabled, **options)
        act = not _stays(settings)
        is_up = context.call("ip.is_up", name) if act else truth(enabled)
        if old == new and is_up == truth(enabled):
            return done(f"Interface {name} is up to date.")
        if context.test:
            return _would(name, old, new, truth(enabled))
        changes: Dict[str, Any] = {}
        comment = f"Interface {name} is up to date."
        if old != new:
            # ifdown needs the stanza by which the interface was brought up.
            if act and is_up and old:
                context.call("ip.down", name, type)
                is_up = False
            context.call("ip.build_interface", name, type, enabled, **options)
            changes["interface"] = "Added network interface." if not old else _difference(old, new)
            comment = f"Interface {name} {'updated' if old else 'added'}."
        if act:
            _bring(context, name, type, truth(enabled), is_up, changes)
    except _REFUSALS as problem:
        return failed(str(problem))
    return done(comment, changes)


def _would(name: str, old: Sequence[str], new: Sequence[str], enabled: bool) -> StateResult:
    if not old:
        return would(f"Interface {name} is set to be added.")
    if old != new:
        return would(f"Interface {name} is set to be updated:\n{_difference(old, new)}")
    return would(f"Interface {name} is set to be {'up' if enabled else 'down'}.")


def _bring(
    context: Context, name: str, kind: str, enabled: bool, is_up: bool, changes: Dict[str, Any]
) -> None:
    """Bring an interface up or down if it is not."""
    if enabled and not is_up:
        context.call("ip.up", name, kind)
        restarted = "interface" in changes and changes["interface"] != "Added network interface."
        changes["status"] = (
            f"Interface {name} restart to validate" if restarted else f"Interface {name} is up"
        )
    elif not enabled and is_up:
        context.call("ip.down", name, kind)
        changes["status"] = f"Interface {name} down"


@state()
def routes(context: Context, /, name: str, **settings: Any) -> StateResult:
    """Make sure that routes are set whenever an interface comes up.

    Args:
        context: the call's context.
        name: of the interface.
        settings: routes, a list of {name, ipaddr, netmask, gateway, metric}; noifupdown: do not
            restart the service networking.
    """
    subject = f"Interface {name} routes"
    options = {key: value for key, value in settings.items() if key != "test"}
    try:
        old = context.call("ip.get_routes", name)
        new = context.call("ip.preview_routes", name, **options)
        if old == new:
            return done(f"{subject} are up to date.")
        if context.test:
            if not old:
                return would(f"{subject} are set to be added.")
            return would(f"{subject} are set to be updated:\n{_difference(old, new)}")
        context.call("ip.build_routes", name, **options)
        told = _difference(old, new) if old else f"Added interface {name} routes."
        changes = {"network_routes": told}
        context.call("ip.apply_network_settings", **_applying(options))
    except _REFUSALS as problem:
        return failed(str(problem))
    return done(f"{subject} {'updated' if old else 'added'}.", changes)


def _stays(options: Mapping[str, Any]) -> bool:
    """Return whether only files are to be written (noifupdown, also without a value)."""
    given = options.get("noifupdown", False)
    return given is None or truth(given)


def _applying(options: Mapping[str, Any]) -> Dict[str, Any]:
    return {"noifupdown": _stays(options), "require_reboot": options.get("require_reboot")}


@state()
def system(context: Context, /, name: str, **settings: Any) -> StateResult:
    """Make sure that the network's global settings have these values.

    Args:
        context: the call's context.
        name: of the state.
        settings: enabled, hostname, domain, search; apply_hostname: also set the running name;
            noifupdown or require_reboot: do not restart the service networking.
    """
    wanted = {key: settings[key] for key in ("enabled", "hostname", "domain", "search")
              if key in settings}  # fmt: skip
    try:
        old = context.call("ip.get_network_settings")
        new = context.call("ip.preview_network_settings", **wanted)
        if old == new:
            return done("Global network settings are up to date.")
        told = f"Global network settings are set to be updated:\n{_difference(old, new)}"
        if context.test:
            return would(told)
        context.call("ip.build_network_settings", **wanted)
        if truth(settings.get("apply_hostname")) and wanted.get("hostname"):
            context.call("cmd.run_all", ["hostname", "--", str(wanted["hostname"])],
                         python_shell=False, raise_err=True)  # fmt: skip
        context.call("ip.apply_network_settings", **_applying(settings))
    except _REFUSALS as problem:
        return failed(str(problem))
    changes = {"network_settings": _difference(old, new)}
    return done("Global network settings were updated.", changes)
