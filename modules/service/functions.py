"""service.*: services, with the init system of this host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.service.provider import ServiceProvider, checked_name
from catena.modules.service.systemd import Systemd
from catena.modules.service.sysv import SysV
from catena.modules.shared.arguments import truth

_BY_NAME: Mapping[str, Callable[[Context], ServiceProvider]] = {"systemd": Systemd, "sysv": SysV}
#: This folder exists if and only if systemd is the running init (sd_booted(3)).
_BOOTED = Path("/run/systemd/system")


def provider(context: Context) -> ServiceProvider:
    """Return the init system of this host.

    The setting `providers.service` (systemd, sysv) has precedence, then the running init.

    Raises:
        CommandExecutionError: neither systemd runs nor are there init scripts.
    """
    named = str(context.opts.get("providers.service"))
    if named in _BY_NAME:
        return _BY_NAME[named](context)
    if _BOOTED.is_dir():
        return Systemd(context)
    if Path("/etc/init.d").is_dir():
        return SysV(context)
    raise CommandExecutionError("no init system that catena knows runs on this host")


def _act(context: Context, name: str, verb: str) -> bool:
    tool = provider(context)
    if not tool.exists(checked_name(name)):
        raise CommandExecutionError(f"The named service {name} is not available")
    tool.act(name, verb)
    return True


@function()
def start(context: Context, name: str) -> bool:
    """Start a service."""
    return _act(context, name, "start")


@function()
def stop(context: Context, name: str) -> bool:
    """Stop a service."""
    return _act(context, name, "stop")


@function()
def restart(context: Context, name: str) -> bool:
    """Restart a service."""
    return _act(context, name, "restart")


@function(name="reload")
def reload_service(context: Context, name: str) -> bool:
    """Make a service reload its configuration."""
    return _act(context, name, "reload")


@function()
def force_reload(context: Context, name: str) -> bool:
    """Make a service reload its configuration; restart it if it can't reload."""
    tool = provider(context)
    verb = "reload-or-restart" if tool.name == "systemd" else "force-reload"
    tool.act(checked_name(name), verb)
    return True


@function(reads=True, fails="bool")
def status(context: Context, name: str, sig: Any = None) -> Any:
    """Return whether a service runs; for a name with `*`, {service: runs}."""
    tool = provider(context)
    if "*" in name or "?" in name:
        from fnmatch import fnmatchcase

        return {found: tool.running(found) for found in tool.available()
                if fnmatchcase(found, name)}  # fmt: skip
    return tool.exists(checked_name(name)) and tool.running(name)


@function(reads=True)
def available(context: Context, name: str) -> bool:
    """Return whether there is such a service."""
    return provider(context).exists(checked_name(name))


@function(reads=True)
def missing(context: Context, name: str) -> bool:
    """Return whether there is no such service."""
    return not available(context, name)


@function(reads=True)
def get_all(context: Context) -> List[str]:
    """Return every service."""
    return provider(context).available()


@function(reads=True)
def get_enabled(context: Context) -> List[str]:
    """Return the services that start at boot."""
    tool = provider(context)
    return [name for name in tool.available() if tool.enabled(name)]


@function(reads=True)
def get_disabled(context: Context) -> List[str]:
    """Return the services that do not start at boot."""
    tool = provider(context)
    return [name for name in tool.available() if not tool.enabled(name)]


@function(reads=True)
def enabled(context: Context, name: str) -> bool:
    """Return whether a service starts at boot."""
    return provider(context).enabled(checked_name(name))


@function(reads=True)
def disabled(context: Context, name: str) -> bool:
    """Return whether a service does not start at boot."""
    return not enabled(context, name)


@function()
def enable(context: Context, name: str) -> bool:
    """Start a service at boot."""
    provider(context).enable(checked_name(name), True)
    return True


@function()
def disable(context: Context, name: str) -> bool:
    """Do not start a service at boot."""
    provider(context).enable(checked_name(name), False)
    return True


@function()
def mask(context: Context, name: str, runtime: Any = False) -> bool:
    """Mask a service, so that it can't be started; with *runtime* until the next boot."""
    provider(context).mask(checked_name(name), True, truth(runtime))
    return True


@function()
def unmask(context: Context, name: str, runtime: Any = False) -> bool:
    """Remove the mask of a service; with *runtime* the one that lasts until the next boot."""
    provider(context).mask(checked_name(name), False, truth(runtime))
    return True


@function(reads=True)
def masked(context: Context, name: str, runtime: Any = False) -> bool:
    """Return whether a service is masked for good, or with *runtime* until the next boot."""
    return provider(context).masked(checked_name(name), truth(runtime))


@function(reads=True)
def show(context: Context, name: str) -> Dict[str, str]:
    """Return the init system's properties of a service."""
    return provider(context).show(checked_name(name))


@function()
def systemctl_reload(context: Context) -> bool:
    """Make systemd reload its units."""
    provider(context).reload_definitions()
    return True


@function(name="provider", reads=True)
def provider_name(context: Context) -> str:
    """Return the name of the init system that is used here."""
    return provider(context).name
