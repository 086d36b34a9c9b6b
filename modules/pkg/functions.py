"""pkg.*: packages, with the package manager of this host."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.pkg.choice import provider as provider
from catena.modules.pkg.installs import install as install
from catena.modules.pkg.installs import list_downloaded as list_downloaded
from catena.modules.pkg.installs import list_pkgs as list_pkgs
from catena.modules.pkg.installs import upgrade as upgrade
from catena.modules.pkg.inventory_functions import add_lock as add_lock
from catena.modules.pkg.inventory_functions import autoremove as autoremove
from catena.modules.pkg.inventory_functions import clean_locks as clean_locks
from catena.modules.pkg.inventory_functions import download as download
from catena.modules.pkg.inventory_functions import get_selections as get_selections
from catena.modules.pkg.inventory_functions import group_diff as group_diff
from catena.modules.pkg.inventory_functions import group_info as group_info
from catena.modules.pkg.inventory_functions import group_install as group_install
from catena.modules.pkg.inventory_functions import group_list as group_list
from catena.modules.pkg.inventory_functions import info_installed as info_installed
from catena.modules.pkg.inventory_functions import list_installed_patches as list_installed_patches
from catena.modules.pkg.inventory_functions import list_locks as list_locks
from catena.modules.pkg.inventory_functions import list_patches as list_patches
from catena.modules.pkg.inventory_functions import list_products as list_products
from catena.modules.pkg.inventory_functions import list_provides as list_provides
from catena.modules.pkg.inventory_functions import list_repo_pkgs as list_repo_pkgs
from catena.modules.pkg.inventory_functions import remove_lock as remove_lock
from catena.modules.pkg.inventory_functions import resolve_capabilities as resolve_capabilities
from catena.modules.pkg.inventory_functions import search as search
from catena.modules.pkg.inventory_functions import services_need_restart as services_need_restart
from catena.modules.pkg.inventory_functions import set_selections as set_selections
from catena.modules.pkg.names import normalize_name as normalize_name
from catena.modules.pkg.names import parse_arch as parse_arch
from catena.modules.pkg.provider import Installed, changes, checked_name, checked_version
from catena.modules.pkg.repos.functions import add_repo_key as add_repo_key
from catena.modules.pkg.repos.functions import del_repo as del_repo
from catena.modules.pkg.repos.functions import del_repo_key as del_repo_key
from catena.modules.pkg.repos.functions import get_repo as get_repo
from catena.modules.pkg.repos.functions import get_repo_keys as get_repo_keys
from catena.modules.pkg.repos.functions import list_repos as list_repos
from catena.modules.pkg.repos.functions import mod_repo as mod_repo
from catena.modules.pkg.wanted import wanted_packages
from catena.modules.shared.arguments import truth


def _remove(context: Context, name: Optional[str], pkgs: Any, purge: bool) -> Any:
    tool = provider(context)
    before = tool.installed()
    present = [item.name for item in wanted_packages(name, pkgs) if item.name in before]
    if not present:
        return {}
    tool.remove(present, purge)
    return changes(before, tool.installed())


@function()
def remove(context: Context, name: Optional[str] = None, pkgs: Any = None) -> Any:
    """Remove packages and return the changes; ignore packages that are not installed."""
    return _remove(context, name, pkgs, purge=False)


@function()
def purge(context: Context, name: Optional[str] = None, pkgs: Any = None) -> Any:
    """Remove packages and their configuration; return the changes."""
    return _remove(context, name, pkgs, purge=True)


@function(reads=True)
def version(context: Context, *names: str) -> Any:
    """Return the installed version of one package ("" if none), or a dict for several."""
    found: Installed = provider(context).installed()
    answers = {name: ",".join(found.get(name, ())) for name in names}
    return answers if len(names) != 1 else answers[names[0]]


@function(reads=True)
def latest_version(context: Context, *names: str, refresh: bool = False) -> Any:
    """Return the version that an upgrade would bring, "" where the newest is installed."""
    tool = provider(context)
    if truth(refresh):
        tool.refresh()
    offered = tool.candidates([checked_name(name) for name in names])
    installed = tool.installed()
    answers = {
        name: new
        if new and not any(tool.compare(old, new) >= 0 for old in installed.get(name, ()))
        else ""
        for name, new in offered.items()
    }
    return answers if len(names) != 1 else answers[names[0]]


@function(name="available_version", reads=True)
def available_version(context: Context, *names: str, refresh: bool = False) -> Any:
    """Return as latest_version (Salt's older name)."""
    return latest_version(context, *names, refresh=refresh)


@function(reads=True)
def upgrade_available(context: Context, name: str) -> bool:
    """Return whether a newer version of *name* is to be had."""
    return bool(latest_version(context, name))


@function(reads=True)
def list_upgrades(context: Context, refresh: bool = False) -> Dict[str, str]:
    """Return every installed package that has a newer version, with that version."""
    tool = provider(context)
    if truth(refresh):
        tool.refresh()
    return tool.upgrades()


@function()
def refresh_db(context: Context) -> bool:
    """Fetch the repositories' indexes."""
    provider(context).refresh()
    return True


@function(reads=True)
def version_cmp(context: Context, pkg1: str, pkg2: str) -> int:
    """Compare two versions by this host's rules; return -1, 0 or 1."""
    return provider(context).compare(checked_version(str(pkg1)), checked_version(str(pkg2)))


def _hold(context: Context, name: Optional[str], pkgs: Any, on: bool) -> Dict[str, Any]:
    tool = provider(context)
    held = set(tool.held())
    names = [item.name for item in wanted_packages(name, pkgs)]
    todo = [found for found in names if (found in held) is not on]
    if todo:
        tool.hold(todo, on)
    now, then = ("hold", "unhold") if on else ("unhold", "hold")
    return {
        found: {
            "name": found,
            "result": True,
            "changes": {"new": now, "old": then} if found in todo else {},
            "comment": f"Package {found} is {'now' if found in todo else 'already'} {now}.",
        }
        for found in names
    }


@function()
def hold(context: Context, name: Optional[str] = None, pkgs: Any = None) -> Dict[str, Any]:
    """Hold packages at their version."""
    return _hold(context, name, pkgs, on=True)


@function()
def unhold(context: Context, name: Optional[str] = None, pkgs: Any = None) -> Dict[str, Any]:
    """Release held packages."""
    return _hold(context, name, pkgs, on=False)


@function(reads=True)
def list_holds(context: Context) -> List[str]:
    """Return the packages that are held."""
    return provider(context).held()


@function(reads=True)
def file_list(context: Context, *names: str) -> Dict[str, Any]:
    """Return the files of installed packages: {"errors": [], "files": [...]}."""
    tool = provider(context)
    errors: List[str] = []
    files: List[str] = []
    for name in names:
        try:
            files += tool.files_of(checked_name(name))
        except CommandExecutionError as error:
            errors.append(str(error))
    return {"errors": errors, "files": files}


@function(reads=True)
def owner(context: Context, *paths: str) -> Any:
    """Return the package of one file ("" if none), or a dict for several."""
    tool = provider(context)
    answers = {path: tool.owner_of(path) for path in paths}
    return answers if len(paths) != 1 else answers[paths[0]]


@function(reads=True)
def which(context: Context, path: str) -> Any:
    """Return the package of a file, or False."""
    return provider(context).owner_of(path) or False


@function(name="provider", reads=True)
def provider_name(context: Context) -> str:
    """Return the name of the package manager that is used here."""
    return provider(context).name
