"""alternatives.*: the program behind a generic name such as `editor`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function

FOLDER = Path("/etc/alternatives")
#: Folder of update-alternatives' records, by OS family.
_RECORDS = {"RedHat": "/var/lib/alternatives", "Suse": "/var/lib/rpm/alternatives"}
#: Package of the tool, by OS family.
_PACKAGES = {"Debian": "dpkg", "RedHat": "alternatives"}
#: Seconds after which the tool is ended.
_DEADLINE = 60
_NAME = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+:@-]*\Z")


def _checked(name: str) -> str:
    """Return *name* if it can name a group of alternatives.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(name)) or str(name) in (".", ".."):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of alternatives")
    return str(name)


def _tool(context: Context) -> str:
    redhat = context.grains.get("os_family") == "RedHat"
    return "alternatives" if redhat else "update-alternatives"


def _ran(context: Context, *words: str) -> Tuple[bool, str]:
    """Return whether the tool succeeded, and its output."""
    try:
        ran = context.call(
            "cmd.run_all",
            [_tool(context), *words],
            python_shell=False,
            ignore_retcode=True,
            timeout=_DEADLINE,
            env={"LC_ALL": "C"},
        )
    except CommandExecutionError as problem:
        package = _PACKAGES.get(str(context.grains.get("os_family")), "update-alternatives")
        raise CommandExecutionError(f"{problem}; it is in the package {package}") from problem
    failed = bool(ran["retcode"])
    return not failed, str(ran["stderr"] if failed and ran["stderr"] else ran["stdout"])


def _need(context: Context, *words: str) -> str:
    done, said = _ran(context, *words)
    if not done:
        told = said.strip()[-2000:]
        prefix = "" if told.startswith(_tool(context)) else f"{_tool(context)} {words[0]}: "
        raise CommandExecutionError(f"{prefix}{told}")
    return said


@function(reads=True)
def display(context: Context, name: str) -> str:
    """Return the tool's description of a name: its choices and the current one."""
    return _ran(context, "--display", _checked(name))[1]


@function(reads=True)
def show_link(context: Context, name: str) -> str:
    """Return the path of a name's link, such as /usr/bin/editor.

    Raises:
        CommandExecutionError: the name has no alternatives.
    """
    family = str(context.grains.get("os_family"))
    record = Path(_RECORDS.get(family, "/var/lib/dpkg/alternatives"), _checked(name))
    try:
        # First line: auto or manual; second: the link.
        return record.read_text(encoding="utf-8").splitlines()[1]
    except (OSError, IndexError) as error:
        raise CommandExecutionError(f"{name} has no alternatives: {error}") from error


@function(reads=True)
def show_current(context: Context, name: str) -> object:
    """Return the path that a name currently points to; False if it has no alternatives."""
    try:
        return os.readlink(FOLDER / _checked(name))  # noqa: PTH115  # the text of the link
    except OSError:
        return False


@function(reads=True)
def check_exists(context: Context, name: str, path: str) -> bool:
    """Return whether *path* is one of a name's choices."""
    done, said = _ran(context, "--display", _checked(name))
    return done and any(_choice(line) == path for line in said.splitlines())


def _choice(line: str) -> str:
    """Return the path of a line `PATH - priority 10` (or `… - family …`)."""
    return line.partition(" - ")[0]


@function(reads=True)
def check_installed(context: Context, name: str, path: str) -> bool:
    """Return whether a name currently points to *path*."""
    return show_current(context, name) == path


@function()
def install(context: Context, name: str, link: str, path: str, priority: int) -> str:
    """Add a choice to a name; return the tool's output.

    Args:
        context: the host.
        name: as in editor.
        link: as in /usr/bin/editor.
        path: the program.
        priority: in automatic mode the choice with the highest priority is used.
    """
    number = str(int(priority))
    return _need(context, "--install", _absolute(link), _checked(name), _absolute(path), number)


@function()
def remove(context: Context, name: str, path: str) -> str:
    """Remove a choice from a name; return the tool's output."""
    return _need(context, "--remove", _checked(name), _absolute(path))


@function()
def auto(context: Context, name: str) -> str:
    """Set a name to automatic mode (highest priority); return the tool's output."""
    return _need(context, "--auto", _checked(name))


@function()
def set_(context: Context, name: str, path: str) -> str:
    """Set the program of a name; return the tool's output."""
    return _need(context, "--set", _checked(name), _absolute(path))


def _absolute(path: str) -> str:
    """Return *path* if it is absolute, so that the tool can't take it for an option.

    Raises:
        UsageError: it is not.
    """
    if not str(path).startswith("/"):
        raise UsageError(f"{str(path)[:80]!r} is no absolute path")
    return str(path)
