"""systemd: queries with `systemctl show`, actions with systemctl."""

from __future__ import annotations

from typing import Dict, List, Mapping

from catena.core.context import Context
from catena.modules.service.provider import need, status_of

_ENV: Mapping[str, str] = {"LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
#: Folders of the links by which a unit is masked: for good, and until the next boot.
_MASKS = {False: "/etc/systemd/system", True: "/run/systemd/system"}
_SUFFIXES = (
    ".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path",
    ".timer", ".slice", ".scope",
)  # fmt: skip


def unit(name: str) -> str:
    """Return the unit of a service name: `sshd` is sshd.service."""
    return name if name.endswith(_SUFFIXES) else f"{name}.service"


def short(name: str) -> str:
    """Return a unit's name as people and Salt write it."""
    return name[: -len(".service")] if name.endswith(".service") else name


def parse_show(text: str) -> Dict[str, str]:
    """Return the properties that `systemctl show` printed."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def parse_unit_files(text: str) -> List[str]:
    """Return the services of `systemctl list-unit-files --no-legend`."""
    names = (line.split()[0] for line in text.splitlines() if line.strip())
    return sorted({short(name) for name in names})


class Systemd:
    """Provider for systemctl."""

    name = "systemd"

    def __init__(self, context: Context) -> None:
        self._context = context

    def _show(self, name: str, *properties: str) -> Dict[str, str]:
        words = ["systemctl", "show", "--no-pager"]
        words += [f"--property={item}" for item in properties]
        return parse_show(need(self._context, [*words, "--", unit(name)], _ENV))

    def available(self) -> List[str]:
        """Return every service unit that is loaded or has a file."""
        files = need(
            self._context,
            ["systemctl", "list-unit-files", "--type=service", "--no-legend", "--no-pager"],
            _ENV,
        )
        loaded = need(
            self._context,
            ["systemctl", "list-units", "--type=service", "--all", "--plain", "--no-legend",
             "--no-pager"],
            _ENV,
        )  # fmt: skip
        return sorted({*parse_unit_files(files), *parse_unit_files(loaded)})

    def exists(self, name: str) -> bool:
        """Return whether systemd can load the unit."""
        return self._show(name, "LoadState").get("LoadState") in ("loaded", "masked")

    def running(self, name: str) -> bool:
        """Return whether the unit is active, or on its way there."""
        return self._show(name, "ActiveState").get("ActiveState") in (
            "active", "reloading", "activating",
        )  # fmt: skip

    def act(self, name: str, verb: str) -> None:
        """Start, stop, restart or reload the unit."""
        need(self._context, ["systemctl", verb, "--", unit(name)], _ENV)

    def enabled(self, name: str) -> bool:
        """Return whether the unit starts at boot."""
        return (
            status_of(
                self._context, ["systemctl", "is-enabled", "--quiet", "--", unit(name)], _ENV
            )[0]
            == 0
        )

    def enable(self, name: str, on: bool) -> None:
        """Enable or disable the unit."""
        need(self._context, ["systemctl", "enable" if on else "disable", "--", unit(name)], _ENV)

    def mask(self, name: str, on: bool, runtime: bool = False) -> None:
        """Mask or unmask the unit; with *runtime* only until the next boot."""
        words = ["systemctl", "mask" if on else "unmask", *(["--runtime"] if runtime else [])]
        need(self._context, [*words, "--", unit(name)], _ENV)

    def masked(self, name: str, runtime: bool = False) -> bool:
        """Return whether the unit is masked for good, or with *runtime* until the next boot.

        A unit can have both masks, so the links themselves are read.
        """
        link = ["readlink", "--", f"{_MASKS[runtime]}/{unit(name)}"]
        return status_of(self._context, link, _ENV)[1].strip() == "/dev/null"

    def show(self, name: str) -> Dict[str, str]:
        """Return all properties of the unit."""
        return self._show(name)

    def reload_definitions(self) -> None:
        """Run daemon-reload."""
        need(self._context, ["systemctl", "daemon-reload"], _ENV)
