"""pkg.* functions for package names with and without an architecture."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from catena.core.context import Context
from catena.core.plugins import function

_RPM = frozenset(
    """aarch64 armv7hl i386 i486 i586 i686 noarch ppc64 ppc64le riscv64 s390x src x86_64""".split()
)
#: Architecture names of packages for any architecture.
_ANY = frozenset(("all", "any", "noarch"))


def _parted(context: Context, name: str) -> Tuple[str, Optional[str]]:
    """Return (name, architecture) of "bash:amd64" on Debian, "bash.x86_64" elsewhere."""
    if context.grains.get("os_family") == "Debian":
        bare, mark, arch = str(name).rpartition(":")
        return (bare, arch) if mark else (str(name), None)
    bare, mark, arch = str(name).rpartition(".")
    return (bare, arch) if mark and arch in _RPM else (str(name), None)


@function(inline=True)
def parse_arch(context: Context, name: str) -> Dict[str, Any]:
    """Return {"name", "arch"} of a package's name; arch is None if it contains none."""
    bare, arch = _parted(context, name)
    return {"name": bare, "arch": arch}


@function(inline=True)
def normalize_name(context: Context, name: str) -> str:
    """Return a package's name without its architecture, where that is this host's or any."""
    bare, arch = _parted(context, name)
    return bare if arch in _ANY or arch == context.grains.get("osarch") else str(name)
