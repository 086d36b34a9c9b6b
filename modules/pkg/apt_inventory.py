"""Inventory with dpkg and apt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from catena.core.errors import CommandExecutionError
from catena.modules.pkg.inventory import (
    FIELD,
    RECORD,
    FetchedPackage,
    Inventory,
    PackageInfo,
    SearchQuery,
    stamped,
)
from catena.modules.pkg.provider import Tool

#: Attribute -> dpkg's field.
_FIELDS: Mapping[str, str] = {
    "arch": "${Architecture}",
    "architecture": "${Architecture}",
    "version": "${Version}",
    "packager": "${Maintainer}",
    "source": "${source:Package}",
    "group": "${Section}",
    "size": "${Installed-Size}",
    "vendor": "${Origin}",
    "url": "${Homepage}",
    "install_date": "${db-fsys:Last-Modified}",
    "install_date_time_t": "${db-fsys:Last-Modified}",
    "summary": "${binary:Summary}",
    "description": "${Description}",
}
_CACHE = "/var/cache/apt/archives"
_REMOVED = re.compile(r"(?:Remv|Purg) (\S+)")
_LICENSE = re.compile(r"^License: *(\S.*)$", re.M)
_COPYRIGHT_BYTES = 256 * 1024
#: dpkg's words for what to do with a package.
SELECTIONS = ("install", "hold", "deinstall", "purge")


def info_format(attributes: Sequence[str]) -> Tuple[str, List[str]]:
    """Return the query format for some attributes (all if none), and their names in its order."""
    names = [name for name in attributes if name in _FIELDS] if attributes else list(_FIELDS)
    if not names and "license" not in attributes:
        raise CommandExecutionError("No valid attributes found.")
    head = ["${Package}", "${Architecture}", "${Version}", "${db:Status-Abbrev}"]
    return FIELD.join([*head, *(_FIELDS[name] for name in names)]) + RECORD, names


def parse_info(text: str, names: Sequence[str]) -> List[PackageInfo]:
    """Return the installed packages of a query in `info_format`."""
    found = []
    for record in text.split(RECORD):
        values = record.split(FIELD)
        if len(values) != len(names) + 4 or values[3][1:2] != "i":
            continue
        fields: Dict[str, Any] = {}
        for name, value in zip(names, values[4:]):
            if name == "install_date":
                fields[name] = stamped(value)[0]
            elif name == "install_date_time_t":
                fields[name] = stamped(value)[1]
            elif name == "size":
                # dpkg counts in KiB, inventories in bytes.
                fields[name] = str(int(value) * 1024) if value.isdigit() else ""
            else:
                fields[name] = value
        kept = {name: value for name, value in fields.items() if value not in ("", None)}
        found.append(PackageInfo(values[0], values[2], kept))
    return found


def parse_offered(text: str) -> Dict[str, List[str]]:
    """Return the versions by name of `apt-cache madison`: `name | version | repository`."""
    found: Dict[str, List[str]] = {}
    for line in text.splitlines():
        name, *rest = [part.strip() for part in line.split("|")]
        if rest and rest[0] not in found.setdefault(name, []):
            found[name].append(rest[0])
    return found


def parse_dump(text: str) -> Dict[str, List[str]]:
    """Return the versions by name of `apt-cache dumpavail`."""
    found: Dict[str, List[str]] = {}
    name = ""
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key == "Package":
            name = value
        elif key == "Version" and name and value not in found.setdefault(name, []):
            found[name].append(value)
    return found


def parse_search(text: str) -> Dict[str, Dict[str, str]]:
    """Return {name: {"name", "summary"}} of `apt-cache search`: `name - summary`."""
    lines = [line.partition(" - ") for line in text.splitlines()]
    return {name: {"name": name, "summary": summary} for name, _, summary in lines if name}


def parse_selections(text: str) -> Dict[str, str]:
    """Return dpkg's selections by package."""
    words = [line.split() for line in text.splitlines()]
    return {pair[0]: pair[1] for pair in words if len(pair) == 2}


def parse_checkrestart(text: str) -> List[str]:
    """Return the services of `checkrestart --machine`: lines `SERVICE:name,…`."""
    lines = [line for line in text.splitlines() if line.startswith("SERVICE:")]
    return sorted({line[len("SERVICE:") :].partition(",")[0] for line in lines})


class AptInventory(Inventory):
    """Answers from dpkg-query, apt-cache and apt-get.

    Args:
        ask: runs commands that only read.
        run: runs the others.
        apt_get: the words of an apt-get command, without its verb.
    """

    def __init__(self, ask: Tool, run: Tool, apt_get: Sequence[str]) -> None:
        super().__init__("apt")
        self._ask, self._run, self._apt_get = ask, run, list(apt_get)

    def info(self, names: Sequence[str], attributes: Sequence[str]) -> List[PackageInfo]:
        """Return the installed packages *names*, or all.

        Raises:
            CommandExecutionError: one of *names* is unknown to dpkg.
        """
        form, fields = info_format(attributes)
        code, out, err = self._ask.status(
            "dpkg-query", "--showformat", form, "--show", "--", *names
        )
        if code and names:
            raise CommandExecutionError(f"Error getting packages information: {err.strip()}")
        found = parse_info(out, fields)
        if attributes and "license" not in attributes:
            return found
        return [_licensed(package) for package in found]

    def search(self, query: SearchQuery) -> Dict[str, Dict[str, str]]:
        """Return name and summary of matching packages."""
        if "provides" in query.options:
            out = self._ask("apt-cache", "showpkg", "--", query.text, ok=(0, 100))
            names = _reverse_provides(out)
            return {name: {"name": name} for name in names}
        # apt reads the text as a regular expression.
        text = re.escape(query.text) if query.match != "exact" else f"^{re.escape(query.text)}$"
        words = [] if "search_descriptions" in query.options else ["--names-only"]
        return parse_search(self._ask("apt-cache", "search", *words, "--", text))

    def offered(self, patterns: Sequence[str]) -> Dict[str, List[str]]:
        """Return the versions that the repositories offer, newest first, by name."""
        if any(set("*?[") & set(pattern) for pattern in patterns) or not patterns:
            found = parse_dump(self._ask("apt-cache", "dumpavail"))
            from fnmatch import fnmatchcase

            if not patterns:
                return found
            return {
                name: versions
                for name, versions in found.items()
                if any(fnmatchcase(name, pattern) for pattern in patterns)
            }
        return parse_offered(self._ask("apt-cache", "madison", "--", *patterns))

    def download(self, names: Sequence[str]) -> List[FetchedPackage]:
        """Fetch packages into apt's cache; the paths are those of the cache."""
        self._run("apt-get", "-q", "download", "--", *names, cwd=_CACHE)
        found = []
        for name in names:
            out = self._ask("find", _CACHE, "-maxdepth", "1", "-name", f"{name}_*.deb")
            found += [FetchedPackage(name, path) for path in sorted(out.splitlines())[-1:]]
        return found

    def cached(self) -> Tuple[str, str]:
        """Return the folder of fetched packages, and the end of their names."""
        return _CACHE, ".deb"

    def read_file(self, path: str) -> Tuple[str, str]:
        """Return name and version of a package's file."""
        out = self._ask("dpkg-deb", "--show", "--showformat", "${Package}\t${Version}", path)
        name, _, version = out.partition("\t")
        return name, version.strip()

    def unneeded(self, purge: bool) -> List[str]:
        """Return the packages that apt-get autoremove would remove."""
        out = self._ask(*self._autoremove(purge), "--simulate")
        return sorted({match[1] for match in map(_REMOVED.match, out.splitlines()) if match})

    def remove_unneeded(self, purge: bool) -> None:
        """Remove the packages that were installed as dependencies and are needed no more."""
        self._run(*self._autoremove(purge))

    def _autoremove(self, purge: bool) -> List[str]:
        return [*self._apt_get, "autoremove", *(["--purge"] if purge else [])]

    def outdated_services(self) -> List[str]:
        """Return the services that checkrestart names."""
        code, out, err = self._ask.status("checkrestart", "--machine", "--package")
        if code:
            raise CommandExecutionError(
                "'checkrestart' is needed. It is part of the package debian-goodies. It said: "
                f"{(err or out).strip()[-500:]}"
            )
        return parse_checkrestart(out)

    def selections(self) -> Dict[str, str]:
        """Return dpkg's selection by package."""
        return parse_selections(self._ask("dpkg", "--get-selections"))

    def select(self, text: str, clear: bool) -> None:
        """Set dpkg's selections from lines `package selection`."""
        if clear:
            self._run("dpkg", "--clear-selections")
        self._run("dpkg", "--set-selections", stdin=text)


def _reverse_provides(text: str) -> List[str]:
    """Return the packages below "Reverse Provides:" of `apt-cache showpkg`."""
    _, _, tail = text.partition("Reverse Provides:")
    return sorted({line.split()[0] for line in tail.splitlines() if line.strip()})


def _licensed(package: PackageInfo) -> PackageInfo:
    """Return a package with the licenses that its copyright file names."""
    try:
        path = Path("/usr/share/doc") / package.name / "copyright"
        with path.open(encoding="utf-8", errors="replace") as handle:
            named = sorted(set(_LICENSE.findall(handle.read(_COPYRIGHT_BYTES))))
    except OSError:
        return package
    fields = {**package.fields, "license": ", ".join(named)} if named else package.fields
    return PackageInfo(package.name, package.edition, fields)
