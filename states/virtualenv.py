"""virtualenv.managed: a virtual environment of Python with its packages."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared import tools
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.tools import Where
from catena.modules.virtualenv import VirtualenvOptions, python_of
from catena.states.answers import done, failed, likely_typos, would

_REFUSALS = (CommandExecutionError, UsageError)
#: Arguments of virtualenv.managed that pip.installed has under another name.
_RENAMED = {
    "pip_pkgs": "pkgs",
    "pip_download": "download",
    "pip_download_cache": "download_cache",
    "pip_exists_action": "exists_action",
    "pip_ignore_installed": "ignore_installed",
    "pip_upgrade": "upgrade",
    "pip_no_cache_dir": "no_cache_dir",
    "pip_cache_dir": "cache_dir",
}


@dataclass(frozen=True)
class VirtualenvPackages:
    """Arguments of virtualenv.managed for its packages, with Salt's names and defaults."""

    requirements: Any = None
    use_wheel: bool = False
    no_use_wheel: bool = False
    cwd: Optional[str] = None
    index_url: Any = None
    extra_index_url: Any = None
    find_links: Any = None
    no_index: bool = False
    pre_releases: bool = False
    no_deps: bool = False
    proxy: Any = None
    env_vars: Any = None
    process_dependency_links: bool = False
    no_binary: Any = None
    trusted_host: Any = None
    extra_args: Any = None
    pip_pkgs: Any = None
    pip_download: Optional[str] = None
    pip_download_cache: Optional[str] = None
    pip_exists_action: Optional[str] = None
    pip_ignore_installed: bool = False
    pip_upgrade: bool = False
    pip_no_cache_dir: bool = False
    pip_cache_dir: Optional[str] = None


@state()
def managed(
    context: Context, /, name: str, user: Optional[str] = None, **arguments: Any
) -> StateResult:
    """Create a virtual environment of Python, and install packages in it.

    Args:
        context: the call's context.
        name: folder of the environment.
        user: its owner.
        arguments: venv_bin, python, system_site_packages, clear, prompt and other options of
            virtualenv.create; pip_pkgs, requirements, pip_upgrade, index_url and other options of
            pip.installed.
    """
    packages, rest = split(VirtualenvPackages, arguments)
    options, rest = split(VirtualenvOptions, rest)
    warnings = likely_typos(VirtualenvPackages, rest, "virtualenv.managed")
    try:
        found = _managed(context, str(name), user, options, packages)
    except _REFUSALS as problem:
        found = failed(f"Failed to create virtualenv: {problem}")
    return replace(found, warnings=(*found.warnings, *warnings))


def _managed(
    context: Context,
    name: str,
    user: Optional[str],
    options: VirtualenvOptions,
    packages: VirtualenvPackages,
) -> StateResult:
    exists = os.path.exists(python_of(name))  # noqa: PTH110  # may hang off a broken link
    clear = exists and truth(options.clear)
    if context.test and (clear or not exists):
        return would(f"Virtualenv {name} is set to be {'cleared' if clear else 'created'}")
    changes: Dict[str, Any] = {}
    if clear:
        changes["cleared_packages"] = context.call("pip.freeze", bin_env=name, user=user)
        changes["old"] = _version(context, name)
    comment = "virtualenv exists"
    if clear or not exists:
        given = {key: value for key, value in vars_of(options).items() if value is not None}
        ran = context.call("virtualenv.create", name, user=user, **given)
        if ran["retcode"]:
            return failed(f"{ran['stdout']}{ran['stderr']}")
        changes["new"] = _version(context, name)
        comment = "Cleared existing virtualenv" if clear else "Created new virtualenv"
    if context.test:
        comment = f"Virtualenv {name} is already created"
    if not (packages.requirements or packages.pip_pkgs):
        return done(comment, changes)
    return _with_packages(context, name, user, packages, done(comment, changes))


def vars_of(record: Any) -> Dict[str, Any]:
    """Return the fields of *record* that differ from their defaults."""
    default = type(record)()
    from catena.core.frozen import fields

    return {
        one.name: getattr(record, one.name)
        for one in fields(type(record))
        if getattr(record, one.name) != getattr(default, one.name)
    }


def _version(context: Context, name: str) -> str:
    ran = tools.ask(context, [python_of(name), "-V"], Where(None, "/"))
    return (ran.stdout or ran.stderr).strip()


def _with_packages(
    context: Context,
    name: str,
    user: Optional[str],
    packages: VirtualenvPackages,
    made: StateResult,
) -> StateResult:
    """Install packages by pip.installed: the requirements, then single packages."""
    given = {_RENAMED.get(key, key): value for key, value in vars_of(packages).items()}
    before = _freeze(context, name, user)
    told: List[str] = [made.comment]
    outcome: Optional[bool] = True
    for left_out in ("pkgs", "requirements"):
        arguments = {key: value for key, value in given.items() if key != left_out}
        if not {"pkgs", "requirements"} & {*arguments}:
            continue
        found = context.states["pip.installed"].call(
            context, name, bin_env=name, user=user, **arguments
        )
        if found.result is not True:
            told.append(found.comment)
            outcome = found.result
        if found.result is False:
            break
    changes = dict(made.changes)
    after = _freeze(context, name, user)
    if before != after:
        new = [one for one in after if one not in before]
        old = [one for one in before if one not in after]
        changes["packages"] = {"new": new or "", "old": old or ""}
    return StateResult(outcome, changes, "\n".join(told))


def _freeze(context: Context, name: str, user: Optional[str]) -> List[str]:
    found: List[str] = context.call("pip.freeze", bin_env=name, user=user)
    return found


@state()
def manage(
    context: Context, /, name: str, user: Optional[str] = None, **arguments: Any
) -> StateResult:
    """Do as `managed`, under its old name."""
    found: StateResult = managed(context, name, user, **arguments)
    return found
