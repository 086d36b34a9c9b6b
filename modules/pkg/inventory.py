"""What inventories ask of a package manager: the interface, its records, and texts in common.

Each package manager has an `Inventory` beside its `Provider` (`Provider.inventory`). A question
that a manager cannot answer is an error that names both.
"""

from __future__ import annotations

import datetime
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass

#: Separators in the output of queries; no package's field contains them.
FIELD, RECORD = "\x1f", "\x1e"
#: Attributes that a change may show (`diff_attr`).
DIFF = ("epoch", "version", "release", "arch", "install_date", "install_date_time_t")
#: What `errors="report"` puts in place of a field that is not valid text.
BROKEN = "N/A (broken)"


@dataclass(frozen=True)
class PackageInfo:
    """One installed package."""

    name: str
    #: [epoch:]version[-release]
    edition: str
    #: Fields under Salt's names, without the name and those that are empty.
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class SearchQuery:
    """A search in the repositories."""

    text: str
    #: "exact", "words", "substrings" or "".
    match: str = ""
    #: Further options of the search, by Salt's names: provides, requires, details, ….
    options: Tuple[str, ...] = ()


@dataclass(frozen=True)
class UpgradeOptions:
    """Options of an upgrade of all packages."""

    #: Allow new and removed packages.
    dist: bool = False
    #: Only say what would be done.
    dry_run: bool = False
    #: Keep each package's vendor (zypper).
    keep_vendor: bool = False
    #: Only from these repositories.
    from_repos: Tuple[str, ...] = ()
    #: Only these packages; all if empty.
    names: Tuple[str, ...] = ()
    #: Skip the check of signatures.
    skip_verify: bool = False
    #: Fetch the packages, but install nothing.
    download_only: bool = False


@dataclass(frozen=True)
class FetchedPackage:
    """A package that was downloaded."""

    name: str
    path: str
    #: Alias and name of its repository, where the manager says them.
    repository: Tuple[str, str] = ("", "")


class Inventory:
    """Questions about packages; a manager overrides those that it can answer.

    Args:
        manager: name of the package manager, for messages.
    """

    def __init__(self, manager: str) -> None:
        self._manager = manager

    def _lacks(self, what: str) -> NoReturn:
        raise CommandExecutionError(f"{self._manager} has no {what}")

    def info(self, names: Sequence[str], attributes: Sequence[str]) -> List[PackageInfo]:
        """Return the installed packages *names*, or all; only *attributes* if there are any."""
        self._lacks("information about packages")

    def search(self, query: SearchQuery) -> Dict[str, Dict[str, str]]:
        """Return what the repositories offer for a query: attributes by name."""
        self._lacks("search")

    def offered(self, patterns: Sequence[str]) -> Dict[str, List[str]]:
        """Return the versions that the repositories offer, newest first, by name."""
        self._lacks("list of the repositories' packages")

    def provides(self) -> Dict[str, List[str]]:
        """Return the installed packages by what they provide."""
        self._lacks("list of what packages provide")

    def download(self, names: Sequence[str]) -> List[FetchedPackage]:
        """Fetch packages without installing them."""
        self._lacks("download of packages")

    def cached(self) -> Tuple[str, str]:
        """Return the folder of fetched packages, and the end of their file names."""
        self._lacks("cache of packages")

    def read_file(self, path: str) -> Tuple[str, str]:
        """Return name and version of a package's file."""
        self._lacks("query of package files")

    def unneeded(self, purge: bool) -> List[str]:
        """Return the packages that were installed as dependencies and are needed no more."""
        self._lacks("list of packages that are not needed")

    def remove_unneeded(self, purge: bool) -> None:
        """Remove the packages that `unneeded` lists."""
        self._lacks("removal of packages that are not needed")

    def outdated_services(self) -> List[str]:
        """Return the services that run with files which an upgrade has replaced."""
        self._lacks("list of services to restart")

    def products(self, every: bool, root: str) -> List[Dict[str, Any]]:
        """Return the installed products, or with *every* also those of the repositories."""
        self._lacks("products: they are SUSE's")

    def patches(self) -> Dict[str, Dict[str, Any]]:
        """Return {name: {"installed", "summary"}} of the patches (advisories)."""
        self._lacks("patches")

    def install_patches(self, names: Sequence[str], download_only: bool) -> None:
        """Install patches (advisories) that `patches` lists."""
        self._lacks("patches")

    def locks(self) -> Dict[str, Dict[str, str]]:
        """Return the locks by the locked name, with their attributes."""
        self._lacks("locks; use pkg.list_holds")

    def clean_locks(self) -> int:
        """Remove the locks that lock nothing; return how many."""
        self._lacks("removal of useless locks")

    def groups(self) -> Dict[str, List[str]]:
        """Return the names of groups: installed, available, and environments of both."""
        self._lacks("groups of packages")

    def group(self, name: str) -> Dict[str, Any]:
        """Return id, description and the packages of a group."""
        self._lacks("groups of packages")

    def selections(self) -> Dict[str, str]:
        """Return dpkg's selection (install, hold, deinstall, purge) by package."""
        self._lacks("selections: they are dpkg's")

    def select(self, text: str, clear: bool) -> None:
        """Set dpkg's selections from its own text form; with *clear*, forget the others."""
        self._lacks("selections: they are dpkg's")


def stamped(seconds: str) -> Tuple[Optional[str], Optional[int]]:
    """Return a time of an inventory as ISO 8601 in UTC and as a number; None if there is none."""
    if not seconds.isdigit():
        return None, None
    when = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ"), int(seconds)


def readable(value: str, report: bool) -> str:
    """Return a field without characters that are not valid text; with *report*, BROKEN if any."""
    if "\ufffd" not in value:
        return value
    return BROKEN if report else value.replace("\ufffd", "")


def by_attributes(
    packages: Sequence[PackageInfo], attributes: Sequence[str]
) -> Dict[str, List[Dict[str, Any]]]:
    """Return `pkg.list_pkgs attr`: the given attributes of each version of each package.

    *attributes* may be ("all",); version and arch are always shown.
    """
    wanted = set(DIFF) if "all" in attributes else {*attributes, "version", "arch"} & set(DIFF)
    found: Dict[str, List[Dict[str, Any]]] = {}
    for package in packages:
        shown = {key: package.fields.get(key) for key in DIFF if key in wanted}
        found.setdefault(package.name, []).append(shown)
    return found
