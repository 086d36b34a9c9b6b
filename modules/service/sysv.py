"""SysV init: scripts in /etc/init.d, links in /etc/rc?.d."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, Mapping

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.service.provider import need, status_of

_ENV: Mapping[str, str] = {"LC_ALL": "C.UTF-8"}
_SCRIPTS = Path("/etc/init.d")
_RUNLEVELS = (2, 3, 4, 5)


class SysV:
    """Init scripts, and update-rc.d or chkconfig for the links.

    Args:
        context: the host.
        root: root folder of the host's files.
    """

    name = "sysv"

    def __init__(self, context: Context, root: Path = Path("/")) -> None:
        self._context = context
        self._root = root

    def available(self) -> List[str]:
        """Return the executable scripts."""
        folder = self._root / _SCRIPTS.relative_to("/")
        if not folder.is_dir():
            return []
        return sorted(
            entry.name for entry in folder.iterdir()
            if entry.is_file() and os.access(entry, os.X_OK) and not entry.name.startswith(".")
        )  # fmt: skip

    def exists(self, name: str) -> bool:
        """Return whether there is such a script."""
        return name in self.available()

    def running(self, name: str) -> bool:
        """Return whether the script's `status` says so (LSB: 0 is running)."""
        return status_of(self._context, [str(_SCRIPTS / name), "status"], _ENV)[0] == 0

    def act(self, name: str, verb: str) -> None:
        """Run the script with *verb*."""
        need(self._context, [str(_SCRIPTS / name), verb], _ENV)

    def enabled(self, name: str) -> bool:
        """Return whether a start link of a multi-user runlevel leads to the script."""
        return any(
            link.name[3:] == name
            for level in _RUNLEVELS
            for link in (self._root / f"etc/rc{level}.d").glob("S[0-9][0-9]*")
        )

    def enable(self, name: str, on: bool) -> None:
        """Create or remove the links with this host's tool."""
        tools = (
            ("/usr/sbin/update-rc.d", [name, "defaults" if on else "remove"]),
            ("/sbin/chkconfig", [name, "on" if on else "off"]),
            ("/usr/sbin/chkconfig", [name, "on" if on else "off"]),
        )
        for tool, words in tools:
            if (self._root / tool.lstrip("/")).exists():
                need(self._context, [tool, *words], _ENV)
                return
        raise CommandExecutionError("neither update-rc.d nor chkconfig is on this host")

    def mask(self, name: str, on: bool, runtime: bool = False) -> None:
        """Refuse: SysV has no masks."""
        raise CommandExecutionError("a SysV service can't be masked")

    def masked(self, name: str, runtime: bool = False) -> bool:
        """Return False: SysV has no masks."""
        return False

    def show(self, name: str) -> Dict[str, str]:
        """Return the script's path."""
        return {"Script": str(_SCRIPTS / name)} if self.exists(name) else {}

    def reload_definitions(self) -> None:
        """Do nothing: scripts are read at each use."""
