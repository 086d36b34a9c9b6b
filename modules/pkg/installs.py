"""pkg.*: installation and upgrade of packages, and what is installed or fetched."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.pkg.choice import provider
from catena.modules.pkg.inventory import DIFF, Inventory, UpgradeOptions, by_attributes, stamped
from catena.modules.pkg.provider import (
    InstallOptions,
    Provider,
    WantedPackage,
    changes,
    checked_name,
)
from catena.modules.pkg.wanted import package_files, resolved, wanted_packages
from catena.modules.shared.arguments import listed, truth

#: Begins the name of a patch among package names, as zypper writes it.
_PATCH = "patch:"
#: Kinds of things that `includes` may name (zypper).
_KINDS = ("package", "patch", "pattern", "product", "srcpackage", "application")


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
) -> Dict[str, Any]:
    """Install packages; return the changes {name: {"old": version, "new": version}}.

    Args:
        context: the host.
        name: package, or several separated by commas.
        refresh: fetch the repositories' indexes first.
        pkgs: list of names and of {name: version}; `patch:NAME` is a patch (zypper, dnf).
        sources: list of {name: file or salt:// address}, instead of repositories.
        version: of *name*.
        options: fromrepo, skip_verify, install_recommends, allow_downgrade; downloadonly fetches
            without installing, and the changes are the fetched files; advisory_ids, a list of
            patches to install instead of packages; diff_attr, attributes to show in the changes;
            includes, kinds of things that *pkgs* may name (zypper).

    Raises:
        CommandExecutionError: the package manager failed; the message has its own words.
    """
    tool = provider(context)
    _check_kinds(options.get("includes"))
    shown = _attributes(options.get("diff_attr"))
    only_fetch = truth(options.get("downloadonly") or options.get("download_only") or False)
    if truth(refresh):
        tool.refresh()
    files = package_files(context, sources)
    patches, pkgs = _patches(options.get("advisory_ids"), pkgs)
    wanted: List[WantedPackage] = []
    if not files and (pkgs or not patches):
        wanted = resolved(tool, wanted_packages(name, pkgs, version))
    before = _fetched(tool) if only_fetch else _state(tool, shown)
    if patches:
        _install_patches(tool.inventory, patches, only_fetch)
    if wanted or files:
        tool.install(wanted, _options(options, tuple(files.values()), only_fetch))
    return _changes(before, _fetched(tool) if only_fetch else _state(tool, shown))


def _check_kinds(includes: Any) -> None:
    for kind in listed(includes):
        if str(kind) not in _KINDS:
            raise UsageError(f"includes: {kind!r} is none of {', '.join(_KINDS)}")


def _attributes(given: Any) -> Tuple[str, ...]:
    """Return the attributes of `diff_attr` or `attr`.

    Raises:
        UsageError: one does not exist.
    """
    names = tuple(str(name) for name in listed(given))
    for name in names:
        if name not in (*DIFF, "all"):
            raise UsageError(f"{name!r} is no attribute of a package: {', '.join(DIFF)}, all")
    return names


def _patches(advisories: Any, pkgs: Any) -> Tuple[List[str], Any]:
    """Return the names of patches, and *pkgs* without those."""
    found = [checked_name(str(name)) for name in listed(advisories)]
    left: List[Any] = []
    for item in listed(pkgs) if isinstance(pkgs, str) else pkgs or ():
        keys = list(item) if isinstance(item, Mapping) else [item]
        if all(str(key).startswith(_PATCH) for key in keys):
            found += [checked_name(str(key)[len(_PATCH) :]) for key in keys]
        else:
            left.append(item)
    return found, left or None


def _install_patches(inventory: Inventory, names: Sequence[str], only_fetch: bool) -> None:
    known = inventory.patches()
    missing = [name for name in names if name not in known]
    if missing:
        raise CommandExecutionError(f"Advisory id '{missing[0]}' not found")
    inventory.install_patches(names, only_fetch)


def _options(given: Mapping[str, Any], files: Tuple[str, ...], only_fetch: bool) -> InstallOptions:
    return InstallOptions(
        files=files,
        downgrade=truth(given.get("allow_downgrade", True)),
        from_repo=str(given.get("fromrepo") or ""),
        skip_verify=truth(given.get("skip_verify", False)),
        recommends=truth(
            given.get("install_recommends", not truth(given.get("no_recommends", False)))
        ),
        download_only=only_fetch,
    )


def _state(tool: Provider, attributes: Sequence[str]) -> Dict[str, Any]:
    """Return what is installed: versions by name, or with *attributes* a list of their values."""
    if attributes:
        every = DIFF if "all" in attributes else {*attributes, "version", "arch"}
        return dict(by_attributes(tool.inventory.info((), sorted(every)), attributes))
    return dict(tool.installed())


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Dict[str, Any]:
    """Return {name: {"old", "new"}} of what differs; "" stands for nothing."""
    values = (*before.values(), *after.values())
    if all(isinstance(found, list) and all(isinstance(v, str) for v in found) for found in values):
        return dict(changes(dict(before), dict(after)))
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def _fetched(tool: Provider) -> Dict[str, Any]:
    folder, suffix = tool.inventory.cached()
    found: Dict[str, Any] = {}
    for where, _, files in os.walk(folder):
        for path in (os.path.join(where, one) for one in files if one.endswith(suffix)):  # noqa: PTH118
            name, version = tool.inventory.read_file(path)
            entry = os.stat(path)  # noqa: PTH116  # many files
            date, seconds = stamped(str(int(entry.st_ctime)))
            found.setdefault(name, {})[version] = {
                "path": path,
                "size": entry.st_size,
                "creation_date_time_t": seconds,
                "creation_date_time": str(date).rstrip("Z"),
            }
    return found


@function(reads=True)
def list_downloaded(context: Context, /, **_: Any) -> Dict[str, Any]:
    """Return the fetched package files: {name: {version: {path, size, creation_date_time, …}}}."""
    return _fetched(provider(context))


@function(reads=True)
def list_pkgs(
    context: Context, /, versions_as_list: bool = False, attr: Any = None, **_: Any
) -> Dict[str, Any]:
    """Return the installed packages: name -> version (several are joined by commas).

    Args:
        context: the host.
        versions_as_list: return a list of versions.
        attr: attributes to return of each version instead: epoch, version, release, arch,
            install_date, install_date_time_t or all.
    """
    tool = provider(context)
    shown = _attributes(attr)
    if shown:
        return _state(tool, shown)
    found = tool.installed()
    if truth(versions_as_list):
        return dict(found)
    return {name: ",".join(versions) for name, versions in sorted(found.items())}


@function()
def upgrade(
    context: Context,
    /,
    name: Optional[str] = None,
    pkgs: Any = None,
    refresh: bool = False,
    dist_upgrade: bool = False,
    **options: Any,
) -> Any:
    """Upgrade every package, or some; return the changes.

    Args:
        context: the host.
        name: package, or several separated by commas; all if neither it nor *pkgs* is given.
        pkgs: list of packages.
        refresh: fetch the repositories' indexes first.
        dist_upgrade: allow new and removed packages.
        options: dryrun, which returns what the manager would do as text; novendorchange (zypper);
            fromrepo, one repository or a list; skip_verify; downloadonly; diff_attr, attributes
            to show in the changes.
    """
    tool = provider(context)
    shown = _attributes(options.get("diff_attr"))
    asked = UpgradeOptions(
        dist=truth(dist_upgrade),
        dry_run=truth(options.get("dryrun", False)),
        keep_vendor=truth(options.get("novendorchange", False)),
        from_repos=tuple(str(one) for one in listed(options.get("fromrepo"))),
        names=tuple(one.name for one in wanted_packages(name, pkgs)) if name or pkgs else (),
        skip_verify=truth(options.get("skip_verify", False)),
        download_only=truth(options.get("downloadonly") or options.get("download_only") or False),
    )
    if truth(refresh):
        tool.refresh()
    if asked.dry_run:
        return tool.upgrade_all(asked).strip()
    before = _state(tool, shown)
    tool.upgrade_all(asked)
    return _changes(before, _state(tool, shown))
