"""docker_volume.*: volumes of docker or podman."""

from __future__ import annotations

from typing import Any, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


@state()
def present(
    context: Context,
    name: str,
    driver: Optional[str] = None,
    driver_opts: Any = None,
    force: Any = False,
) -> StateResult:
    """Make sure that a volume exists.

    Args:
        context: the call's context.
        name: of the volume.
        driver: that keeps its data.
        driver_opts: options of the driver, for a new volume.
        force: replace a volume of another driver, with the loss of its data.
    """
    changes = {}
    try:
        there = context.call("docker.volume_exists", name)
        old = context.call("docker.inspect_volume", name)["Driver"] if there else None
        if there and driver in (None, old):
            return done(f"Volume '{name}' already exists.")
        if there and not truth(force):
            return failed(
                f"Driver for existing volume '{name}' ('{old}') does not match specified driver "
                f"('{driver}') and force is False"
            )
        if context.test:
            new = f"replaced with a new one using the driver '{driver}'" if there else "created"
            return would(f"The volume '{name}' will be {new}")
        if there:
            changes["removed"] = context.call("docker.remove_volume", name)
        changes["created"] = context.call(
            "docker.create_volume", name, driver=driver, driver_opts=driver_opts
        )
    except _REFUSALS as problem:
        return failed(f"Failed to create volume '{name}': {problem}", changes)
    return done(f"Volume '{name}' was {'replaced' if old else 'created'}", changes)


@state()
def absent(context: Context, name: str) -> StateResult:
    """Make sure that a volume does not exist; its data is lost."""
    try:
        if not context.call("docker.volume_exists", name):
            return done(f"Volume '{name}' already absent")
        if context.test:
            return would(f"Volume '{name}' will be removed")
        removed = context.call("docker.remove_volume", name)
    except _REFUSALS as problem:
        return failed(f"Failed to remove volume '{name}': {problem}")
    return done(f"Volume '{name}' was removed", {"removed": removed})
