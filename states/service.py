"""service.*: running, stopped, enabled and masked services."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth


def _absent(name: str) -> StateResult:
    return StateResult(False, comment=f"The named service {name} is not available")


def _boot(context: Context, name: str, enable: Optional[bool], test: bool) -> Dict[str, Any]:
    """Enable or disable the service at boot; return {name: setting} if that changed."""
    if enable is None or bool(context.call("service.enabled", name)) == enable:
        return {}
    if not test:
        context.call("service.enable" if enable else "service.disable", name)
    return {name: enable}


def _reach(
    context: Context, name: str, run: bool, enable: Optional[bool], options: Dict[str, Any]
) -> StateResult:
    """Start or stop a service, for the states running and dead."""
    if not context.call("service.available", name):
        # A service that does not exist satisfies `dead`, because it can't run.
        return StateResult(True, comment=f"The named service {name} is not available") \
            if not run else _absent(name)  # fmt: skip
    runs = bool(context.call("service.status", name))
    word = "running" if run else "dead"
    if context.test:
        boot = _boot(context, name, enable, test=True)
        if runs == run and not boot:
            return StateResult(True, comment=f"The service {name} is already {word}")
        verb = "start" if run else "stop"
        text = f"Service {name} is set to {verb}" if runs != run else f"Service {name} set to " \
            + ("be enabled" if enable else "be disabled")  # fmt: skip
        return StateResult(None, comment=text)
    if run and options.get("unmask"):
        context.call("service.unmask", name)
    changes = _boot(context, name, enable, test=False)
    if runs == run:
        return StateResult(True, changes, f"The service {name} is already {word}")
    context.call("service.start" if run else "service.stop", name)
    if bool(context.call("service.status", name)) != run:
        verb = "start" if run else "die"
        return StateResult(False, changes, f"Service {name} failed to {verb}")
    changes[name] = run
    verb = "started" if run else "was killed"
    return StateResult(True, changes, f"{verb.capitalize()} Service {name}" if run
                       else f"Service {name} {verb}")  # fmt: skip


@state()
def running(
    context: Context, /, name: str, enable: Optional[bool] = None, sig: Any = None, **options: Any
) -> StateResult:
    """Make sure that a service runs; *enable* decides about the start at boot.

    Args:
        context: the call's context.
        name: the service.
        enable: True starts it at boot, False does not, None keeps the setting.
        sig: accepted without effect; systemd and init scripts report the status.
        options: unmask (true: unmask the service first); no_block and init_delay have no effect.
    """
    return _reach(context, name, True, enable, options)


@state()
def dead(
    context: Context, /, name: str, enable: Optional[bool] = None, sig: Any = None, **options: Any
) -> StateResult:
    """Make sure that a service does not run; *enable* decides about the start at boot."""
    return _reach(context, name, False, enable, options)


def _at_boot(context: Context, name: str, enable: bool) -> StateResult:
    word = "enabled" if enable else "disabled"
    if not context.call("service.available", name):
        return _absent(name) if enable else StateResult(
            True, comment=f"The named service {name} is not available"
        )  # fmt: skip
    if bool(context.call("service.enabled", name)) == enable:
        return StateResult(True, comment=f"Service {name} is already {word}")
    if context.test:
        return StateResult(None, comment=f"Service {name} set to be {word}")
    changes = _boot(context, name, enable, test=False)
    return StateResult(True, changes, f"Service {name} has been {word}")


@state()
def enabled(context: Context, name: str) -> StateResult:
    """Make sure that a service starts at boot."""
    return _at_boot(context, name, True)


@state()
def disabled(context: Context, name: str) -> StateResult:
    """Make sure that a service does not start at boot."""
    return _at_boot(context, name, False)


def _mask(context: Context, name: str, on: bool, runtime: bool) -> StateResult:
    kind = "runtime masked" if runtime else "masked"
    word = kind if on else kind.replace("masked", "unmasked")
    if bool(context.call("service.masked", name, runtime)) == on:
        return StateResult(True, comment=f"Service {name} is already {word}")
    changes = {kind: {"old": not on, "new": on}}
    if context.test:
        return StateResult(None, changes, f"Service {name} would be {word}")
    try:
        context.call("service.mask" if on else "service.unmask", name, runtime)
    except CommandExecutionError as error:
        return StateResult(False, comment=str(error))
    if bool(context.call("service.masked", name, runtime)) != on:
        return StateResult(False, comment=f"Failed to {'mask' if on else 'unmask'} service {name}")
    return StateResult(True, changes, f"Service {name} was {word}")


@state()
def masked(context: Context, name: str, runtime: Any = False) -> StateResult:
    """Mask a service, so that it can't be started.

    Args:
        context: the call's context.
        name: of the service.
        runtime: until the next boot; a mask for good is another one.
    """
    return _mask(context, name, True, truth(runtime))


@state()
def unmasked(context: Context, name: str, runtime: Any = False) -> StateResult:
    """Unmask a service; *runtime* means only the mask that lasts until the next boot."""
    return _mask(context, name, False, truth(runtime))


@state()
def mod_watch(
    context: Context, /, name: str, sfun: str = "running", **options: Any
) -> StateResult:
    """Restart (or reload, full_restart) a running service: something watched has changed."""
    runs = bool(context.call("service.status", name))
    if sfun == "dead":
        verb = "stop" if runs else ""
    elif options.get("reload") and runs:
        verb = "reload"
    else:
        verb = "restart" if runs else "start"
    if not verb:
        return StateResult(True, comment="Service is already stopped")
    if context.test:
        return StateResult(None, comment=f"Service is set to be {_PAST[verb]}")
    try:
        context.call(f"service.{verb}", name)
    except CommandExecutionError as error:
        return StateResult(False, comment=str(error))
    return StateResult(True, {name: True}, f"Service {_PAST[verb]}")


_PAST = {"restart": "restarted", "reload": "reloaded", "start": "started", "stop": "stopped"}
