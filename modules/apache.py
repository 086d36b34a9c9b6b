"""apache.*: modules, sites and configuration files of Debian's Apache, by a2enmod and its like."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.core.plugins import function
from catena.modules.shared import programs

_FOLDER = Path("/etc/apache2")
_PACKAGE = "apache2"
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}\Z")
_ENDS = (".conf", ".load")


@dataclass(frozen=True)
class _Kind:
    """A kind of thing that a link in a folder enables."""

    #: Key in Salt's answers.
    noun: str
    folder: str
    suffix: str
    enable: str
    disable: str


_MOD = _Kind("Mod", "mods-enabled", ".load", "a2enmod", "a2dismod")
_SITE = _Kind("Site", "sites-enabled", ".conf", "a2ensite", "a2dissite")
_CONF = _Kind("Conf", "conf-enabled", ".conf", "a2enconf", "a2disconf")


def _checked(name: Any) -> str:
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a module or site of Apache")
    return str(name)


def _enabled(kind: _Kind, name: Any) -> bool:
    file = _checked(name)
    if not file.endswith(_ENDS if kind is _MOD else _ENDS[:1]):
        file += kind.suffix
    folder = _FOLDER / kind.folder
    if os.path.islink(folder / file):  # noqa: PTH114  # a broken link counts, too
        return True
    return kind is _SITE and name == "default" and (folder / f"000-{file}").is_symlink()


def _switch(context: Context, kind: _Kind, name: Any, on: bool) -> Dict[str, str]:
    program, past = (kind.enable, "enabled") if on else (kind.disable, "disabled")
    ran = programs.look(context, [program, "-q", "--", _checked(name)], _PACKAGE)
    title = f"Apache2 {'Enable' if on else 'Disable'} {kind.noun}"
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip()[-500:]
        if "does not exist" not in told:
            raise CommandExecutionError(f"{program} failed with {ran.retcode}: {told}")
        return {"Name": title, kind.noun: str(name), "Status": f"{kind.noun} {name} Not found"}
    return {"Name": title, kind.noun: str(name), "Status": f"{kind.noun} {name} {past}"}


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of Apache, as "Apache/2.4.57 (Debian)"."""
    text = programs.need(context, ["apache2ctl", "-v"], _PACKAGE)
    return text.splitlines()[0].partition(": ")[2]


@function(reads=True)
def modules(context: Context) -> Dict[str, List[str]]:
    """Return the modules of the running configuration: {static: […], shared: […]}."""
    found: Dict[str, List[str]] = {}
    for line in programs.need(context, ["apache2ctl", "-M"], _PACKAGE).splitlines():
        words = line.split()
        if len(words) == 2 and words[1] in ("(static)", "(shared)"):
            found.setdefault(words[1].strip("()"), []).append(words[0])
    return found


@function(reads=True)
def check_mod_enabled(context: Context, mod: str) -> bool:
    """Return whether a module is enabled."""
    return _enabled(_MOD, mod)


@function(reads=True)
def check_site_enabled(context: Context, site: str) -> bool:
    """Return whether a site is enabled."""
    return _enabled(_SITE, site)


@function(reads=True)
def check_conf_enabled(context: Context, conf: str) -> bool:
    """Return whether a configuration file is enabled."""
    return _enabled(_CONF, conf)


@function()
def a2enmod(context: Context, mod: str) -> Dict[str, str]:
    """Enable a module; return {Name, Mod, Status}."""
    return _switch(context, _MOD, mod, True)


@function()
def a2dismod(context: Context, mod: str) -> Dict[str, str]:
    """Disable a module; return {Name, Mod, Status}."""
    return _switch(context, _MOD, mod, False)


@function()
def a2ensite(context: Context, site: str) -> Dict[str, str]:
    """Enable a site; return {Name, Site, Status}."""
    return _switch(context, _SITE, site, True)


@function()
def a2dissite(context: Context, site: str) -> Dict[str, str]:
    """Disable a site; return {Name, Site, Status}."""
    return _switch(context, _SITE, site, False)


@function()
def a2enconf(context: Context, conf: str) -> Dict[str, str]:
    """Enable a configuration file; return {Name, Conf, Status}."""
    return _switch(context, _CONF, conf, True)


@function()
def a2disconf(context: Context, conf: str) -> Dict[str, str]:
    """Disable a configuration file; return {Name, Conf, Status}."""
    return _switch(context, _CONF, conf, False)
