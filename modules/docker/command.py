"""Run docker or podman and read its JSON."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown
from catena.modules.shared import programs
from catena.modules.shared.command.options import DEFAULT_PATH

_PACKAGES = {"docker": "docker.io", "podman": "podman"}
_SOCKET = Path("/var/run/docker.sock")
#: Seconds for a command that only talks to the daemon.
DEADLINE = 120
#: Seconds for one that moves images.
LONG = 3600
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}\Z")
_IMAGE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,511}\Z")
#: Words of an error about something that is not there.
_MISSING = ("no such", "not found", "does not exist", "not known")


def named(name: Any, kind: str = "container") -> str:
    """Return *name* if it can be that of a container, network or volume.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a {kind}")
    return str(name)


def image_name(name: Any) -> str:
    """Return *name* if it can be that of an image.

    Raises:
        UsageError: it can't.
    """
    if not _IMAGE.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of an image")
    return str(name)


def program(context: Context) -> str:
    """Return "docker" or "podman": the setting docker.command, else the one that is usable.

    Raises:
        UsageError: the setting names another program.
    """
    chosen = context.call("config.option", "docker.command")
    if chosen:
        if chosen not in _PACKAGES:
            raise UsageError(f"docker.command: {unknown('program', str(chosen), _PACKAGES)}")
        return str(chosen)
    there = {name for name in _PACKAGES if shutil.which(name, path=DEFAULT_PATH)}
    if "docker" in there and (_SOCKET.exists() or os.environ.get("DOCKER_HOST")):
        return "docker"
    return "docker" if there == {"docker"} else "podman"


def ask(
    context: Context,
    words: Sequence[str],
    *,
    stdin: Optional[str] = None,
    timeout: float = DEADLINE,
) -> str:
    """Run docker or podman and return what it prints.

    Raises:
        CommandExecutionError: it is not installed, did not end in time, or failed.
    """
    name = program(context)
    return programs.need(
        context, [name, *words], _PACKAGES[name], stdin=stdin, timeout=timeout
    ).strip()


def inspect(context: Context, kind: str, names: Sequence[str]) -> List[Dict[str, Any]]:
    """Return the descriptions of things that exist.

    Args:
        context: the host.
        kind: container, image, network or volume.
        names: names or ids.

    Raises:
        CommandExecutionError: one does not exist, or the JSON can't be read.
    """
    if not names:
        return []
    text = ask(context, [kind, "inspect", *names])
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise CommandExecutionError(f"the JSON of {kind} inspect can't be read: {problem}") from (
            problem
        )
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CommandExecutionError(f"the JSON of {kind} inspect is no list of mappings")
    return found


def find(context: Context, kind: str, name: str) -> Optional[Dict[str, Any]]:
    """Return the description of a thing; None if it does not exist.

    Raises:
        CommandExecutionError: docker or podman does not work.
    """
    try:
        found = inspect(context, kind, [name])
    except CommandExecutionError as problem:
        if any(word in str(problem).lower() for word in _MISSING) and " failed with " in str(
            problem
        ):
            return None
        raise
    return found[0] if found else None
