"""Choose the package manager of this host."""

from __future__ import annotations

import shutil
from typing import Callable, Mapping, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.apt import Apt
from catena.modules.pkg.dnf import Dnf
from catena.modules.pkg.provider import Provider
from catena.modules.pkg.zypper import Zypper

#: Provider by OS family; checked before the installed tools, because Debian ships dnf and zypper
#: as ordinary packages.
_BY_FAMILY: Mapping[str, Callable[[Context], Provider]] = {
    "Debian": Apt,
    "RedHat": Dnf,
    "Suse": Zypper,
}
_BY_TOOL: Sequence[Tuple[str, Callable[[Context], Provider]]] = (
    ("apt-get", Apt),
    ("zypper", Zypper),
    ("dnf", Dnf),
)
_BY_NAME: Mapping[str, Callable[[Context], Provider]] = {"apt": Apt, "dnf": Dnf, "zypper": Zypper}


def provider(context: Context) -> Provider:
    """Return the package manager of this host.

    The setting `providers.pkg` (apt, dnf, zypper) has precedence, then the OS family, then the
    installed tools.

    Raises:
        CommandExecutionError: there is none that we know.
    """
    named = str(context.opts.get("providers.pkg"))
    if named in _BY_NAME:
        return _BY_NAME[named](context)
    family = _BY_FAMILY.get(str(context.grains.get("os_family")))
    if family is not None:
        return family(context)
    for tool, kind in _BY_TOOL:
        if shutil.which(tool):
            return kind(context)
    raise CommandExecutionError("no package manager that catena knows is on this host")
