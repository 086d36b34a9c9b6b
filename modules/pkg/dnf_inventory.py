"""Inventory with dnf: repositories, advisories, groups."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.inventory import FetchedPackage, SearchQuery
from catena.modules.pkg.provider import Tool
from catena.modules.pkg.rpm_inventory import RpmInventory

_CACHE = "/var/cache/dnf/packages"
_LIST = "%{name}\\t%{epoch}\\t%{version}-%{release}\\t%{arch}\\t%{summary}\\n"
#: Headings of `dnf group list` -> the keys of pkg.group_list.
_HEADINGS: Mapping[str, str] = {
    "installed groups": "installed",
    "available groups": "available",
    "installed environment groups": "installed environments",
    "available environment groups": "available environments",
}
#: Headings of `dnf group info` -> the keys of pkg.group_info.
_KINDS: Mapping[str, str] = {
    "mandatory packages": "mandatory",
    "default packages": "default",
    "optional packages": "optional",
    "conditional packages": "conditional",
    "mandatory groups": "mandatory",
    "optional groups": "optional",
}
#: Options of pkg.search that dnf's repoquery has.
_SEARCH: Mapping[str, str] = {
    "provides": "--whatprovides",
    "requires": "--whatrequires",
    "recommends": "--whatrecommends",
    "suggests": "--whatsuggests",
    "conflicts": "--whatconflicts",
    "obsoletes": "--whatobsoletes",
    "file_list": "--file",
}


def parse_packages(text: str) -> List[Dict[str, str]]:
    """Return name, edition, arch and summary of each line of a repoquery in _LIST."""
    found = []
    for line in text.splitlines():
        parts = line.split("\t", 4)
        if len(parts) == 5:
            name, epoch, edition, arch, summary = parts
            full = edition if epoch in ("0", "") else f"{epoch}:{edition}"
            found.append({"name": name, "edition": full, "arch": arch, "summary": summary})
    return found


def parse_advisories(text: str, installed: bool) -> Dict[str, Dict[str, Any]]:
    """Return the patches of `dnf updateinfo list`: `[i] ID KIND PACKAGE` per line."""
    found: Dict[str, Dict[str, Any]] = {}
    for line in text.splitlines():
        words = line.split()
        done = words[:1] == ["i"]
        words = words[1:] if done else words
        if len(words) == 3 and "-" in words[0]:
            row = found.setdefault(words[0], {"installed": True, "summary": []})
            row["summary"].append(words[2])
            # One package that is missing makes the patch an open one.
            row["installed"] = row["installed"] and (done or installed)
    return found


def parse_groups(text: str) -> Dict[str, List[str]]:
    """Return the groups of `dnf group list`, by heading."""
    found: Dict[str, List[str]] = {key: [] for key in _HEADINGS.values()}
    current = ""
    for line in text.splitlines():
        heading = line.strip().rstrip(":").lower()
        if not line.startswith(" ") and line.strip():
            current = _HEADINGS.get(heading, "")
        elif current and line.strip():
            found[current].append(line.strip())
    return found


def parse_group(text: str) -> Dict[str, Any]:
    """Return the content of `dnf group info`.

    Raises:
        CommandExecutionError: the text describes no group.
    """
    found: Dict[str, Any] = {
        key: [] for key in ("mandatory", "optional", "default", "conditional")
    }
    found.update({"group": "", "id": "", "description": "", "type": "package group"})
    current = ""
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        label = key.lower()
        if colon and label in _KINDS:
            current = _KINDS[label]
        elif colon and label in ("group", "environment group"):
            found["group"], current = value, ""
            found["type"] = "environment group" if label.startswith("env") else "package group"
        elif colon and label in ("group-id", "environment-id", "description"):
            found["description" if label == "description" else "id"], current = value, ""
        elif current and line.strip():
            # A package that would be installed is marked.
            found[current].append(line.strip().lstrip("+=- "))
    if not found["group"]:
        raise CommandExecutionError("dnf described no group")
    return found


class DnfInventory(RpmInventory):
    """Answers from dnf and the rpm database."""

    def __init__(self, context: Context, ask: Tool, run: Tool) -> None:
        super().__init__(context, "dnf")
        self._ask, self._run = ask, run

    def _query(self, *words: str) -> List[Dict[str, str]]:
        text = self._ask("dnf", "-q", "repoquery", "--available", "--queryformat", _LIST, *words)
        return parse_packages(text)

    def search(self, query: SearchQuery) -> Dict[str, Dict[str, str]]:
        """Return the attributes of matching packages by name."""
        by = [_SEARCH[name] for name in query.options if name in _SEARCH]
        exact = query.match == "exact" or by
        text = query.text if exact else f"*{query.text}*"
        rows = self._query(*([f"{by[0]}={text}"] if by else ["--", text]))
        return {row["name"]: row for row in rows}

    def offered(self, patterns: Sequence[str]) -> Dict[str, List[str]]:
        """Return the versions that the repositories offer, newest first, by name."""
        found: Dict[str, List[str]] = {}
        # dnf lists the oldest version of a name first.
        for row in reversed(self._query(*(["--", *patterns] if patterns else []))):
            if row["edition"] not in found.setdefault(row["name"], []):
                found[row["name"]].append(row["edition"])
        return found

    def download(self, names: Sequence[str]) -> List[FetchedPackage]:
        """Fetch packages; needs dnf's plug-in `download`."""
        self._run("dnf", "-q", "-y", "download", f"--destdir={_CACHE}", "--", *names)
        found = []
        for name in names:
            out = self._ask("find", _CACHE, "-maxdepth", "1", "-name", f"{name}-[0-9]*.rpm")
            found += [FetchedPackage(name, path) for path in sorted(out.splitlines())[-1:]]
        return found

    def cached(self) -> Tuple[str, str]:
        """Return the folder of fetched packages, and the end of their names."""
        return "/var/cache/dnf", ".rpm"

    def unneeded(self, purge: bool) -> List[str]:
        """Return the packages that dnf autoremove would remove."""
        text = self._ask("dnf", "-q", "repoquery", "--unneeded", "--queryformat", "%{name}\\n")
        return sorted(set(text.split()))

    def remove_unneeded(self, purge: bool) -> None:
        """Remove the packages that nothing needs."""
        self._run("dnf", "-q", "-y", "autoremove")

    def outdated_services(self) -> List[str]:
        """Return the services that use deleted files; needs dnf's plug-in needs-restarting."""
        text = self._ask("dnf", "-q", "needs-restarting", "--services", ok=(0, 1))
        return sorted({line.strip() for line in text.splitlines() if line.strip()})

    def patches(self) -> Dict[str, Dict[str, Any]]:
        """Return the advisories of the repositories."""
        return parse_advisories(self._ask("dnf", "-q", "updateinfo", "list", "--all"), False)

    def install_patches(self, names: Sequence[str], download_only: bool) -> None:
        """Install the packages of advisories."""
        words = ["dnf", "-q", "-y", *(f"--advisory={name}" for name in names)]
        self._run(*words, *(["--downloadonly"] if download_only else []), "upgrade")

    def locks(self) -> Dict[str, Dict[str, str]]:
        """Return the version locks by name; needs dnf's plug-in versionlock."""
        code, out, _ = self._ask.status("dnf", "-q", "versionlock", "list")
        names = [line.strip() for line in out.splitlines() if line.strip()] if code == 0 else []
        return {name: {"type": "package"} for name in names}

    def groups(self) -> Dict[str, List[str]]:
        """Return the names of groups."""
        return parse_groups(self._ask("dnf", "-q", "group", "list", "--hidden"))

    def group(self, name: str) -> Dict[str, Any]:
        """Return the packages of a group."""
        return parse_group(self._ask("dnf", "-q", "group", "info", "--", name))
