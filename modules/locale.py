"""locale.*: available locales and the configured one."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

from catena.core.context import Context
from catena.core.plugins import function
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

_FILES = ("/etc/locale.conf", "/etc/default/locale", "/etc/sysconfig/i18n")


def _normal(name: str) -> str:
    language, dot, charmap = (
        str(name).split()[0].partition(".") if str(name).split() else ("",) * 3
    )
    return f"{language}{dot}{charmap.lower().replace('-', '')}"


@function(reads=True)
def get_locale(context: Context) -> str:
    """Return LANG as this host's configuration sets it, or ""."""
    for name in _FILES:
        path = Path(name)
        if path.is_file():
            values: Dict[str, str] = {}
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                key, mark, value = line.strip().partition("=")
                if mark and not key.startswith("#"):
                    values[key] = value.strip("\"'")
            if "LANG" in values:
                return values["LANG"]
    return ""


@function(reads=True)
def list_avail(context: Context) -> List[str]:
    """Return the locales that programs may use."""
    return run(context, ["locale", "-a"], RunOptions(python_shell=False)).stdout.split()


@function(reads=True)
def avail(context: Context, locale: str) -> bool:
    """Return whether programs may use a locale; en_US.UTF-8 is en_US.utf8."""
    return _normal(locale) in {_normal(one) for one in list_avail(context)}
