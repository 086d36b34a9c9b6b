"""The interface of init systems."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Protocol, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError

#: Grammar of unit and script names: no leading hyphen, no slash, no shell characters.
_NAME = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@:\\-]*\Z")


class ServiceProvider(Protocol):
    """One init system."""

    #: Name under which `service.provider` shows it.
    name: str

    def available(self) -> List[str]:
        """Return every service that could be started, sorted."""

    def exists(self, name: str) -> bool:
        """Return whether there is a service of that name."""

    def running(self, name: str) -> bool:
        """Return whether a service runs."""

    def act(self, name: str, verb: str) -> None:
        """Start, stop, restart or reload a service and wait until that is done."""

    def enabled(self, name: str) -> bool:
        """Return whether a service starts at boot."""

    def enable(self, name: str, on: bool) -> None:
        """Enable or disable a service at boot."""

    def mask(self, name: str, on: bool, runtime: bool = False) -> None:
        """Mask or unmask a service; with *runtime* only until the next boot."""

    def masked(self, name: str, runtime: bool = False) -> bool:
        """Return whether a service is masked for good, or with *runtime* until the next boot."""

    def show(self, name: str) -> Dict[str, str]:
        """Return the init system's properties of a service."""

    def reload_definitions(self) -> None:
        """Read changed service definitions."""


def checked_name(name: str) -> str:
    """Return *name* if it can name a service; raise UsageError otherwise."""
    if not _NAME.match(name):
        raise UsageError(f"{name[:80]!r} can't be the name of a service")
    return name


def status_of(context: Context, argv: List[str], env: Mapping[str, str]) -> Tuple[int, str, str]:
    """Run a command; return its exit code, stdout and stderr."""
    ran: Dict[str, Any] = context.call(
        "cmd.run_all", argv, python_shell=False, env=dict(env), ignore_retcode=True
    )
    return int(ran["retcode"]), str(ran["stdout"]), str(ran["stderr"])


def need(context: Context, argv: List[str], env: Mapping[str, str]) -> str:
    """Run a command that must succeed; return its output.

    Raises:
        CommandExecutionError: it did not; the message has its own words.
    """
    code, out, err = status_of(context, argv, env)
    if code:
        said = (err.strip() or out.strip())[-2000:]
        raise CommandExecutionError(f"{' '.join(argv[:3])} ended with code {code}: {said}")
    return out
