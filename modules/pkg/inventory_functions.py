"""pkg.*: what inventories ask, behind `Provider.inventory`."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.pkg.apt_inventory import SELECTIONS
from catena.modules.pkg.choice import provider
from catena.modules.pkg.inventory import PackageInfo, SearchQuery, readable
from catena.modules.pkg.provider import Provider, changes, checked_name
from catena.modules.pkg.wanted import wanted_packages
from catena.modules.shared.arguments import listed, truth

#: Longest text of a search, in characters.
_SEARCH_CHARS = 200


@function(reads=True)
def info_installed(
    context: Context,
    /,
    *names: str,
    attr: Any = None,
    errors: str = "ignore",
    all_versions: bool = False,
    failhard: bool = True,
    **_: Any,
) -> Dict[str, Any]:
    """Return information about installed packages, or about all: {name: {attribute: value}}.

    Args:
        context: the host.
        names: packages; all if none.
        attr: attributes, as a list or separated by commas: arch, epoch, version, release,
            install_date, install_date_time_t, build_date, build_host, vendor, source, group,
            packager, summary, description, url, size, license, signature.
        errors: "report" puts "N/A (broken)" in place of a field that is not valid text; "ignore"
            leaves out the characters.
        all_versions: return a list per name, with every installed version.
        failhard: fail if apt does not know a name; otherwise it is left out.
    """
    if errors not in ("ignore", "report"):
        raise UsageError(f"errors={errors!r} is neither ignore nor report")
    asked = [str(name).strip() for name in listed(attr)]
    try:
        found = provider(context).inventory.info([checked_name(n) for n in names], asked)
    except CommandExecutionError:
        if truth(failhard):
            raise
        return {}
    return described(found, asked, errors == "report", truth(all_versions))


def described(
    packages: Sequence[PackageInfo], attributes: Sequence[str], report: bool, every: bool
) -> Dict[str, Any]:
    """Return packages as pkg.info_installed does; unless *every*, the newest of each name."""
    rows: Dict[str, List[Dict[str, Any]]] = {}
    for package in packages:
        fields = {
            name: readable(value, report) if isinstance(value, str) else value
            for name, value in package.fields.items()
        }
        if every:
            fields["edition"] = package.edition
        if not attributes or "name" in attributes:
            fields["name"] = package.name
        rows.setdefault(package.name, []).append(fields)
    if every:
        return dict(rows)
    # The package that was installed last is the newest in all but odd cases.
    return {
        name: max(found, key=lambda row: int(row.get("install_date_time_t") or 0))
        for name, found in rows.items()
    }


@function(reads=True)
def list_products(
    context: Context, all: bool = False, refresh: bool = False, root: Optional[str] = None
) -> List[Dict[str, Any]]:
    """Return SUSE's products: those that are installed, or with *all* also available ones.

    Args:
        context: the host.
        all: also products of the repositories.
        refresh: fetch the repositories' indexes first.
        root: another root folder.
    """
    tool = _fresh(context, refresh)
    return tool.inventory.products(truth(all), str(root or ""))


def _fresh(context: Context, refresh: Any) -> Provider:
    tool = provider(context)
    if truth(refresh):
        tool.refresh()
    return tool


@function(reads=True)
def list_patches(context: Context, /, refresh: bool = False, **_: Any) -> Dict[str, Any]:
    """Return the patches (advisories): {name: {"installed": bool, "summary": …}}."""
    return _fresh(context, refresh).inventory.patches()


@function(reads=True)
def list_installed_patches(context: Context, /, **_: Any) -> Dict[str, Any]:
    """Return the patches (advisories) that are installed."""
    found = provider(context).inventory.patches()
    return {name: row for name, row in found.items() if row["installed"]}


@function(reads=True)
def search(
    context: Context, /, criteria: str, refresh: bool = False, match: str = "", **options: Any
) -> Dict[str, Any]:
    """Search the repositories; return {name: attributes}.

    Args:
        context: the host.
        criteria: text to search for.
        refresh: fetch the repositories' indexes first.
        match: exact, words or substrings.
        options: provides, requires, recommends, suggests, conflicts, obsoletes, file_list,
            search_descriptions, case_sensitive, installed_only, not_installed_only, details.

    Raises:
        CommandExecutionError: nothing was found.
    """
    text = str(criteria)
    if not text or len(text) > _SEARCH_CHARS or not text.isprintable():
        raise UsageError(f"criteria must have 1 to {_SEARCH_CHARS} characters")
    chosen = tuple(sorted(name for name, value in options.items() if truth(value)))
    query = SearchQuery(text, str(match), chosen)
    found = _fresh(context, refresh).inventory.search(query)
    if not found:
        raise CommandExecutionError(f"No packages found matching '{text}'")
    return dict(found)


@function(reads=True)
def resolve_capabilities(
    context: Context,
    /,
    pkgs: Any,
    refresh: bool = False,
    resolve_capabilities: bool = False,
    **_: Any,
) -> List[Any]:
    """Return *pkgs* with names replaced by those of the packages that provide them.

    Args:
        context: the host.
        pkgs: list of names and of {name: version}.
        refresh: fetch the repositories' indexes first.
        resolve_capabilities: without it the list is returned unchanged.
    """
    inventory = _fresh(context, refresh).inventory
    found: List[Any] = []
    for item in listed(pkgs) if isinstance(pkgs, str) else pkgs:
        name, version = next(iter(item.items())) if isinstance(item, Mapping) else (item, None)
        if truth(resolve_capabilities) and not inventory.search(SearchQuery(str(name), "exact")):
            providers = inventory.search(SearchQuery(str(name), "exact", ("provides",)))
            name = next(iter(providers)) if len(providers) == 1 else name
        found.append({name: version} if version else name)
    return found


@function(reads=True)
def list_repo_pkgs(context: Context, /, *patterns: str, **_: Any) -> Dict[str, List[str]]:
    """Return the versions that the repositories offer, newest first, by name.

    Args:
        context: the host.
        patterns: names, which may contain `*` and `?`; all packages if there are none.
    """
    return provider(context).inventory.offered([_pattern(one) for one in patterns])


def _pattern(text: str) -> str:
    checked_name(re.sub(r"[*?\[\]]", "x", str(text)))
    return str(text)


@function(reads=True)
def list_provides(context: Context, /, **_: Any) -> Dict[str, List[str]]:
    """Return the installed packages by what they provide (rpm systems)."""
    return provider(context).inventory.provides()


@function()
def download(
    context: Context, /, *packages: str, refresh: bool = False, **_: Any
) -> Dict[str, Any]:
    """Fetch packages without installing them.

    Returns {name: {"path": …, "repository-alias": …, "repository-name": …}}; packages that could
    not be fetched are named under "_error".

    Raises:
        CommandExecutionError: none could be fetched.
    """
    names = [checked_name(str(name)) for name in packages]
    if not names:
        raise UsageError("No packages specified")
    found: Dict[str, Any] = {}
    for item in _fresh(context, refresh).inventory.download(names):
        alias, title = item.repository
        place = {"repository-alias": alias, "repository-name": title} if alias else {}
        found[item.name] = {"path": item.path, **place}
    missing = [name for name in names if name not in found]
    if not found:
        raise CommandExecutionError(f"Unable to download packages: {', '.join(names)}")
    if missing:
        text = f"The following package(s) failed to download: {', '.join(missing)}"
        found["_error"] = text
    return found


@function(reads=True)
def services_need_restart(context: Context, /, **_: Any) -> List[str]:
    """Return the services that run with files which an upgrade has replaced."""
    return provider(context).inventory.outdated_services()


@function()
def autoremove(context: Context, list_only: bool = False, purge: bool = False) -> Any:
    """Remove packages that were installed as dependencies and are needed no more.

    Args:
        context: the host.
        list_only: only return their names.
        purge: remove their configuration too (apt).
    """
    tool = provider(context)
    if truth(list_only):
        return tool.inventory.unneeded(truth(purge))
    before = tool.installed()
    tool.inventory.remove_unneeded(truth(purge))
    return changes(before, tool.installed())


@function(reads=True)
def get_selections(
    context: Context, pattern: Any = None, state: Optional[str] = None
) -> Dict[str, List[str]]:
    """Return dpkg's selections: {"install": [names], "hold": […], …}.

    Args:
        context: the host.
        pattern: names with wildcards, as a list or separated by commas.
        state: only this selection.
    """
    patterns = [str(one) for one in listed(pattern)]
    found: Dict[str, List[str]] = {}
    for name, chosen in provider(context).inventory.selections().items():
        if patterns and not any(fnmatch.fnmatchcase(name, one) for one in patterns):
            continue
        if state in (None, chosen):
            found.setdefault(chosen, []).append(name)
    return found


@function()
def set_selections(
    context: Context,
    path: Optional[str] = None,
    selection: Any = None,
    clear: bool = False,
    saltenv: str = "base",
) -> Dict[str, Dict[str, str]]:
    """Set dpkg's selections; return the changes {name: {"old", "new"}}.

    Args:
        context: the host.
        path: file with lines `name selection`; salt:// or a path.
        selection: {"hold": [names], …}, as a mapping or YAML.
        clear: forget the selections of all other packages.
        saltenv: environment of *path*.
    """
    wanted = _selection(context, path, selection, saltenv)
    inventory = provider(context).inventory
    before = inventory.selections()
    if truth(clear) or any(before.get(name) != value for name, value in wanted.items()):
        text = "".join(f"{name}\t{value}\n" for name, value in wanted.items())
        inventory.select(text, truth(clear))
    after = inventory.selections()
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def _selection(
    context: Context, path: Optional[str], selection: Any, saltenv: str
) -> Dict[str, str]:
    """Return the wanted selection by package.

    Raises:
        UsageError: both or none are given, or one is malformed.
    """
    if bool(path) == bool(selection):
        raise UsageError("give either path or selection")
    found: Dict[str, str] = {}
    if path:
        local = context.call("cp.cache_file", path, saltenv=saltenv)
        if not local:
            raise CommandExecutionError(f"{path} was not found")
        for number, line in enumerate(context.call("file.read", local).splitlines(), 1):
            words = line.split()
            if words and not line.startswith("#"):
                if len(words) != 2:
                    raise UsageError(f"{path}, line {number}: not `name selection`")
                found[words[0]] = words[1]
    else:
        found = {str(n): str(s) for s, names in _mapping(selection).items() for n in listed(names)}
    for name, chosen in found.items():
        checked_name(name)
        if chosen not in SELECTIONS:
            raise UsageError(f"{name}: {chosen!r} is none of {', '.join(SELECTIONS)}")
    return found


def _mapping(selection: Any) -> Mapping[str, Any]:
    if isinstance(selection, str):
        from catena.renderers import yaml

        selection = yaml.load(selection, "selection")
    if not isinstance(selection, Mapping):
        raise UsageError("selection is no mapping of a selection to packages")
    return selection


@function(reads=True)
def list_locks(context: Context, /, **_: Any) -> Dict[str, Any]:
    """Return the locks (zypper, dnf): {name: {"type", "match_type", "case_sensitive"}}."""
    return dict(provider(context).inventory.locks())


@function()
def add_lock(context: Context, /, packages: Any, **_: Any) -> Dict[str, Any]:
    """Lock packages; return {"added": number, "packages": names}."""
    return _lock(context, packages, True)


@function()
def remove_lock(context: Context, /, packages: Any, **_: Any) -> Dict[str, Any]:
    """Unlock packages; return {"removed": number, "not_found": names}."""
    return _lock(context, packages, False)


def _lock(context: Context, packages: Any, on: bool) -> Dict[str, Any]:
    tool = provider(context)
    names = [item.name for item in wanted_packages(None, listed(packages))]
    locked = tool.inventory.locks()
    todo = [name for name in names if (name in locked) is not on]
    if todo:
        tool.hold(todo, on)
    if on:
        return {"added": len(todo), "packages": todo}
    return {"removed": len(todo), "not_found": [name for name in names if name not in locked]}


@function()
def clean_locks(context: Context, /, **_: Any) -> Dict[str, Any]:
    """Remove the locks that lock nothing (zypper); return {"removed": number}."""
    return {"removed": provider(context).inventory.clean_locks()}


@function(reads=True)
def group_list(context: Context) -> Dict[str, Any]:
    """Return the groups of packages (dnf): installed, available, and environments of both."""
    return {**provider(context).inventory.groups(), "available languages": {}}


@function(reads=True)
def group_info(
    context: Context, /, name: str, expand: bool = False, ignore_groups: Any = None, **_: Any
) -> Dict[str, Any]:
    """Return id, description and packages of a group (dnf).

    Args:
        context: the host.
        name: name or id.
        expand: replace the groups of an environment by their packages.
        ignore_groups: groups that are not expanded.
    """
    found = provider(context).inventory.group(_group_name(name))
    if not truth(expand) or found["type"] != "environment group":
        return found
    skipped = {str(one) for one in listed(ignore_groups)}
    for kind in ("mandatory", "optional", "default", "conditional"):
        packages: List[str] = []
        for inner in found[kind]:
            if inner in skipped:
                continue
            packages += provider(context).inventory.group(_group_name(inner))[kind]
        found[kind] = sorted(set(packages))
    return found


def _group_name(name: str) -> str:
    text = str(name)
    if not text or text.startswith("-") or not text.isprintable() or len(text) > _SEARCH_CHARS:
        raise UsageError(f"{text[:80]!r} can't be the name of a group")
    return text


@function(reads=True)
def group_diff(context: Context, /, name: str, **_: Any) -> Dict[str, Any]:
    """Return which packages of a group are installed (dnf)."""
    tool = provider(context)
    info, installed = tool.inventory.group(_group_name(name)), tool.installed()
    return {
        kind: {
            "installed": [one for one in info[kind] if one in installed],
            "not installed": [one for one in info[kind] if one not in installed],
        }
        for kind in ("mandatory", "optional", "default", "conditional")
    }


@function()
def group_install(context: Context, name: Any, skip: Any = (), include: Any = ()) -> Any:
    """Install the mandatory and default packages of groups (dnf); return the changes.

    Args:
        context: the host.
        name: name or id, or a list of them.
        skip: packages that are not installed.
        include: further packages.
    """
    tool = provider(context)
    wanted: List[str] = []
    for one in listed(name):
        info = tool.inventory.group(_group_name(one))
        wanted += [*info["mandatory"], *info["default"]]
    skipped = {str(one) for one in listed(skip)}
    installed = tool.installed()
    names = [*wanted, *(str(one) for one in listed(include))]
    todo = sorted({one for one in names if one not in skipped and one not in installed})
    return context.call("pkg.install", pkgs=todo) if todo else {}
