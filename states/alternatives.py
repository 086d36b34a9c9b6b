"""alternatives.*: the program behind a generic name such as `editor`."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


@state()
def install(context: Context, name: str, link: str, path: str, priority: Any) -> StateResult:
    """Make sure that *path* is one of the choices of *name*.

    Args:
        context: the call's context.
        name: as in editor.
        link: as in /usr/bin/editor.
        path: the program.
        priority: whole number; in automatic mode the choice with the highest one is used.
    """
    try:
        number = _whole(priority)
        if context.call("alternatives.check_exists", name, path):
            return done(f"Alternative {path} for {name} is already registered")
        if context.test:
            told = f"Alternative will be set for {name} to {path} with priority {priority}"
            return would(told)
        context.call("alternatives.install", name, link, path, number)
        current = context.call("alternatives.check_installed", name, path)
    except _REFUSALS as problem:
        return failed(f"Alternative for {name} not installed: {problem}")
    changes = {"name": name, "link": link, "path": path, "priority": priority}
    if current:
        told = f"Alternative for {name} set to path {path} with priority {priority}"
        return done(told, changes)
    told = f"Alternative {path} for {name} registered with priority {priority}"
    return done(f"{told} and not set to default", changes)


def _whole(priority: Any) -> int:
    try:
        return int(str(priority))
    except ValueError:
        raise UsageError(f"priority must be a whole number, not {str(priority)[:80]!r}") from None


@state()
def remove(context: Context, name: str, path: str) -> StateResult:
    """Make sure that *path* is none of the choices of *name*."""
    try:
        found = context.call("alternatives.check_exists", name, path)
        if found and context.test:
            return would(f"Alternative for {name} will be removed")
        if found:
            context.call("alternatives.remove", name, path)
        current = context.call("alternatives.show_current", name)
    except _REFUSALS as problem:
        return failed(f"Alternative for {name} not removed: {problem}")
    if found and current:
        told = f"Alternative for {name} removed. Falling back to path {current}"
        return done(told, {"path": current})
    if found:
        return done(f"Alternative for {name} removed")
    if current:
        return done(f"Alternative for {name} is set to it's default path {current}")
    return failed(f"Alternative for {name} doesn't exist")


@state()
def auto(context: Context, name: str) -> StateResult:
    """Make sure that *name* is in automatic mode, which uses the highest priority."""
    try:
        lines = str(context.call("alternatives.display", name)).splitlines()
        # Debian ends the line "NAME - auto mode"; Red Hat "NAME - status is auto.".
        if lines and lines[0].endswith((" auto mode", " status is auto.")):
            return done(f"{name} already in auto mode")
        if context.test:
            return would(f"{name} will be put in auto mode")
        said = context.call("alternatives.auto", name)
    except _REFUSALS as problem:
        return failed(f"{name} not put in auto mode: {problem}")
    return done("", {"result": said or f"{name} is in auto mode"})


@state(name="set")
def set_(context: Context, name: str, path: str) -> StateResult:
    """Make sure that *name* points to its choice *path*, in manual mode."""
    try:
        if context.call("alternatives.show_current", name) == path:
            return done(f"Alternative for {name} already set to {path}")
        if not context.call("alternatives.check_exists", name, path):
            return failed(f"Alternative {path} for {name} doesn't exist")
        if context.test:
            return would(f"Alternative for {name} will be set to path {path}")
        context.call("alternatives.set", name, path)
        current = context.call("alternatives.show_current", name)
    except _REFUSALS as problem:
        return failed(f"Alternative for {name} not updated: {problem}")
    if current != path:
        return failed(f"Alternative for {name} not updated")
    return done(f"Alternative for {name} set to path {path}", {"path": path})
