"""pkg.*: packages, with the package manager of this host."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.pkg.choice import provider as provider
from catena.modules.pkg.names import normalize_name as normalize_name
from catena.modules.pkg.names import parse_arch as parse_arch
from catena.modules.pkg.provider import (
    Installed,
    InstallOptions,
    Provider,
    WantedPackage,
    changes,
    checked_name,
    checked_version,
)
from catena.modules.pkg.repos.functions import add_repo_key as add_repo_key
from catena.modules.pkg.repos.functions import del_repo as del_repo
from catena.modules.pkg.repos.functions import del_repo_key as del_repo_key
from catena.modules.pkg.repos.functions import get_repo as get_repo
from catena.modules.pkg.repos.functions import get_repo_keys as get_repo_keys
from catena.modules.pkg.repos.functions import list_repos as list_repos
from catena.modules.pkg.repos.functions import mod_repo as mod_repo
from catena.modules.shared.arguments import listed, truth

_OPERATOR = re.compile(r"\s*(<=|>=|==|!=|<|>|=)?\s*(\S+)\s*\Z")

Names = Union[None, str, List[Any]]


def wanted_packages(
    name: Optional[str], pkgs: Any, version: Optional[str] = None
) -> List[WantedPackage]:
    """Return the wanted packages from `name`, `version` and `pkgs`.

    *pkgs* is a list of names and of {name: version}; *name* may be a comma-separated list.

    Raises:
        UsageError: a name or version breaks the grammar, or nothing is asked for.
    """
    found: List[WantedPackage] = []
    items = pkgs if pkgs else listed(name)
    for item in listed(items) if isinstance(items, str) else items:
        if isinstance(item, Mapping):
            found += [_wanted(key, value) for key, value in item.items()]
        else:
            found.append(_wanted(item, version if not pkgs else None))
    if not found:
        raise UsageError("no package was named")
    return found


def _wanted(name: Any, version: Any) -> WantedPackage:
    text = "" if version in (None, "latest") else str(version).strip().lstrip("=")
    return WantedPackage(checked_name(str(name)), text)


def satisfies(provider: Provider, have: Sequence[str], want: str) -> bool:
    """Return whether one of the installed versions is what *want* asks for.

    *want* is a version, a version with a `*`, or an operator and a version (">=1.2").
    """
    if not have or not want:
        return bool(have)
    if "*" in want:
        return any(fnmatch.fnmatchcase(version, want) for version in have)
    parsed = _OPERATOR.match(want)
    if parsed is None:
        raise UsageError(f"{want!r} is no version")
    operator, version = parsed[1] or "==", checked_version(parsed[2])
    tests: Mapping[str, Callable[[int], bool]] = {
        "<": lambda c: c < 0, "<=": lambda c: c <= 0, ">": lambda c: c > 0,
        ">=": lambda c: c >= 0, "==": lambda c: c == 0, "=": lambda c: c == 0,
        "!=": lambda c: c != 0,
    }  # fmt: skip
    return any(tests[operator](provider.compare(present, version)) for present in have)


def _resolved(tool: Provider, wanted: Sequence[WantedPackage]) -> List[WantedPackage]:
    """Return *wanted* with operators and globs replaced by matching candidate versions."""
    odd = [item for item in wanted if re.match(r"[<>!]", item.version) or "*" in item.version]
    if not odd:
        return [WantedPackage(item.name, checked_version(item.version)) for item in wanted]
    offered = tool.candidates([item.name for item in odd])
    found = []
    for item in wanted:
        if item not in odd:
            found.append(WantedPackage(item.name, checked_version(item.version)))
        elif satisfies(tool, [v for v in (offered[item.name],) if v], item.version):
            found.append(WantedPackage(item.name, offered[item.name]))
        else:
            offer = offered[item.name] or "nothing"
            raise CommandExecutionError(
                f"{item.name}: {item.version} is wanted, the repositories offer {offer}"
            )
    return found


def _files(context: Context, sources: Any) -> Dict[str, str]:
    """Return local files by package name for Salt's `sources`: [{name: salt://… or path}]."""
    found: Dict[str, str] = {}
    for item in sources or ():
        if not isinstance(item, Mapping):
            raise UsageError("sources is a list of {package name: file}")
        for name, where in item.items():
            path = str(where)
            if path.startswith("salt://"):
                local = context.files.fetch(path[len("salt://") :], context.saltenv)
                if local is None:
                    raise CommandExecutionError(f"{path} was not found")
                path = str(local)
            found[checked_name(str(name))] = path
    return found


@function()
def install(
    context: Context,
    /,
    name: Optional[str] = None,
    refresh: bool = False,
    pkgs: Any = None,
    sources: Any = None,
    version: Optional[str] = None,
    **options: Any,
) -> Dict[str, Dict[str, str]]:
    """Install packages; return the changes {name: {"old": version, "new": version}}.

    Args:
        context: the host.
        name: package, or several separated by commas.
        refresh: fetch the repositories' indexes first.
        pkgs: list of names and of {name: version}.
        sources: list of {name: file or salt:// address}, instead of repositories.
        version: of *name*.
        options: fromrepo, skip_verify, install_recommends (downloadonly is not supported).

    Raises:
        CommandExecutionError: the package manager failed; the message has its own words.
    """
    tool = provider(context)
    if truth(refresh):
        tool.refresh()
    files = _files(context, sources)
    wanted = [] if files else _resolved(tool, wanted_packages(name, pkgs, version))
    before = tool.installed()
    tool.install(wanted, _options(options, tuple(files.values())))
    return changes(before, tool.installed())


def _options(given: Mapping[str, Any], files: Tuple[str, ...]) -> InstallOptions:
    return InstallOptions(
        files=files,
        downgrade=truth(given.get("allow_downgrade", True)),
        from_repo=str(given.get("fromrepo") or ""),
        skip_verify=truth(given.get("skip_verify", False)),
        recommends=truth(given.get("install_recommends", True)),
    )


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
def list_pkgs(context: Context, versions_as_list: bool = False) -> Dict[str, Any]:
    """Return the installed packages: name -> version (several are joined by commas)."""
    found = provider(context).installed()
    if truth(versions_as_list):
        return dict(found)
    return {name: ",".join(versions) for name, versions in sorted(found.items())}


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


@function()
def upgrade(context: Context, refresh: bool = False, dist_upgrade: bool = False) -> Any:
    """Upgrade every package; return the changes."""
    tool = provider(context)
    if truth(refresh):
        tool.refresh()
    before = tool.installed()
    tool.upgrade_all(truth(dist_upgrade))
    return changes(before, tool.installed())


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
    tool, errors, files = provider(context), [], []  # type: Provider, List[str], List[str]
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
