"""sysctl.*: parameters of the running kernel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function

_ROOT = Path("/proc/sys")
_SYSTEMD = Path("/run/systemd/system")


def _path(name: str) -> Path:
    """Return the /proc path of a parameter; net/ipv4/conf/eth0.1 keeps the dots of names."""
    text = str(name)
    slashes, dots = text.find("/"), text.find(".")
    if slashes >= 0 and (dots < 0 or slashes < dots):
        parts = text.split("/")
    else:
        parts = [part.replace("/", ".") for part in text.split(".")]
    if not all(parts) or ".." in parts:
        raise UsageError(f"{name!r} is no setting of the kernel")
    return _ROOT.joinpath(*parts)


@function(reads=True)
def get(context: Context, name: str) -> str:
    """Return the value of a setting (kernel.ostype); a sentence where there is none.

    Raises:
        UsageError: *name* is no name of a setting.
    """
    path = _path(name)
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as problem:
        return f"sysctl: cannot stat {path}: {problem.strerror}"


@function(reads=True)
def show(context: Context) -> Dict[str, str]:
    """Return every setting that this user may read."""
    found = {}
    for above, _, names in os.walk(_ROOT):
        for name in names:
            path = Path(above, name)
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # write-only, or of a device that was removed
            found[".".join(path.relative_to(_ROOT).parts)] = text.strip()
    return dict(sorted(found.items()))


@function(inline=True)
def default_config(context: Context) -> str:
    """Return the file that keeps settings between boots."""
    return "/etc/sysctl.d/99-salt.conf" if _SYSTEMD.exists() else "/etc/sysctl.conf"
