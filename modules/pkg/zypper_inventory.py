"""Inventory with zypper: products, patches, search, locks."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple
from xml.etree import ElementTree

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.inventory import FetchedPackage, SearchQuery
from catena.modules.pkg.provider import Tool, xml_of
from catena.modules.pkg.rpm_inventory import RpmInventory

#: Exit codes of success: 102 reboot needed, 103 restart of zypper needed.
_DONE = (0, 102, 103)
#: Exit code for nothing found.
_NOTHING = 104
_LOCKS = Path("/etc/zypp/locks")
_LOCKS_BYTES = 1024 * 1024
_OEM = "var/lib/suseRegister/OEM"
#: Options of pkg.search -> zypper's.
_SEARCH: Mapping[str, str] = {
    "provides": "--provides",
    "recommends": "--recommends",
    "requires": "--requires",
    "suggests": "--suggests",
    "conflicts": "--conflicts",
    "obsoletes": "--obsoletes",
    "file_list": "--file-list",
    "search_descriptions": "--search-descriptions",
    "case_sensitive": "--case-sensitive",
    "installed_only": "--installed-only",
    "not_installed_only": "--not-installed-only",
    "details": "--details",
}
_MATCH: Mapping[str, str] = {
    "exact": "--match-exact",
    "words": "--match-words",
    "substrings": "--match-substrings",
}


def search_command(query: SearchQuery) -> List[str]:
    """Return the arguments of a search, after `--xmlout`."""
    words = ["search", *([_MATCH[query.match]] if query.match in _MATCH else [])]
    words += [_SEARCH[name] for name in query.options if name in _SEARCH]
    return [*words, "--", query.text]


def parse_solvables(text: str) -> Dict[str, Dict[str, str]]:
    """Return the attributes of what a search found, by name; of the first line of each."""
    found: Dict[str, Dict[str, str]] = {}
    for item in xml_of(text).iter("solvable"):
        found.setdefault(item.get("name", ""), dict(item.attrib))
    return found


def parse_products(text: str) -> List[Dict[str, Any]]:
    """Return the products of `zypper --xmlout products`, with Salt's names."""
    return [_product(item) for item in xml_of(text).iter("product")]


def _product(item: ElementTree.Element) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in item.attrib.items():
        if name in ("isbase", "installed"):
            found[name] = value in ("true", "1")
        elif value:
            found[name] = value
    end = item.find("endoflife")
    if end is not None:
        found["eol"] = end.get("text", "")
        found["eol_t"] = int(end.get("time_t") or 0)
    text = item.findtext("description") or ""
    found["description"] = " ".join(line.strip() for line in text.split("\n"))
    return found


def parse_patches(text: str) -> Dict[str, Dict[str, Any]]:
    """Return {name: {"installed", "summary"}} of a search for patches."""
    return {
        item.get("name", ""): {
            "installed": item.get("status") in ("installed", "applied"),
            "summary": item.get("summary", ""),
        }
        for item in xml_of(text).iter("solvable")
    }


def parse_locks(text: str) -> Dict[str, Dict[str, str]]:
    """Return the locks of zypper's file by the locked name."""
    found: Dict[str, Dict[str, str]] = {}
    for block in text.split("\n\n"):
        pairs = [line.partition(":") for line in block.splitlines() if not line.startswith("#")]
        lock = {key.strip(): value.strip() for key, colon, value in pairs if colon}
        name = lock.pop("solvable_name", "")
        if name:
            found[name] = lock
    return found


def parse_downloads(text: str) -> List[FetchedPackage]:
    """Return what `zypper --xmlout download` fetched."""
    found = []
    for item in xml_of(text).iter("download-result"):
        repository, local = item.find("repository"), item.find("localfile")
        name = item.findtext("solvable/name") or item.findtext("name") or ""
        path = local.get("path", "") if local is not None else ""
        if name and path:
            alias = repository.get("alias", "") if repository is not None else ""
            title = repository.get("name", "") if repository is not None else ""
            found.append(FetchedPackage(name.strip(), path, (alias, title)))
    return found


def parse_services(text: str) -> List[str]:
    """Return the services of `zypper ps -sss`, one per line."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class ZypperInventory(RpmInventory):
    """Answers from zypper and the rpm database."""

    def __init__(self, context: Context, ask: Tool, run: Tool) -> None:
        super().__init__(context, "zypper")
        self._ask, self._run = ask, run

    def _xml(self, *words: str) -> str:
        """Return the answer to a query; that nothing was found is none."""
        code, out, err = self._ask.status("zypper", "--non-interactive", "--xmlout", *words)
        if code not in (*_DONE, _NOTHING):
            raise CommandExecutionError(f"zypper ended with code {code}: {(err or out)[-2000:]}")
        return out

    def search(self, query: SearchQuery) -> Dict[str, Dict[str, str]]:
        """Return the attributes of matching packages by name."""
        return parse_solvables(self._xml("--no-refresh", *search_command(query)))

    def offered(self, patterns: Sequence[str]) -> Dict[str, List[str]]:
        """Return the versions that the repositories offer, newest first, by name."""
        asked = patterns or ("*",)
        wild = any(set("*?[") & set(pattern) for pattern in asked)
        words = ["--no-refresh", "search", "--details", "--type", "package"]
        out = self._xml(*words, *([] if wild else ["--match-exact"]), "--", *asked)
        found: Dict[str, List[str]] = {}
        for item in xml_of(out).iter("solvable"):
            # Without --match-exact zypper also finds parts of names.
            if not any(fnmatchcase(item.get("name", ""), pattern) for pattern in asked):
                continue
            editions = found.setdefault(item.get("name", ""), [])
            # The repository of what is only installed has this name in parentheses.
            if item.get("edition") not in (None, *editions) and "(" not in item.get(
                "repository", ""
            ):
                editions.append(item.get("edition", ""))
        return {name: editions for name, editions in found.items() if editions}

    def download(self, names: Sequence[str]) -> List[FetchedPackage]:
        """Fetch packages into zypper's cache."""
        out = self._run(
            "zypper", "--non-interactive", "--xmlout", "download", "--", *names, ok=_DONE
        )
        return parse_downloads(out)

    def cached(self) -> Tuple[str, str]:
        """Return the folder of fetched packages, and the end of their names."""
        return "/var/cache/zypp/packages", ".rpm"

    def unneeded(self, purge: bool) -> List[str]:
        """Return the installed packages that no other needs and nobody asked for."""
        out = self._xml("--no-refresh", "packages", "--unneeded")
        return sorted({item.get("name", "") for item in xml_of(out).iter("solvable")})

    def remove_unneeded(self, purge: bool) -> None:
        """Remove the packages that nothing needs."""
        names = self.unneeded(purge)
        if names:
            self._run("zypper", "--non-interactive", "remove", "--", *names, ok=_DONE)

    def outdated_services(self) -> List[str]:
        """Return the services that use deleted files."""
        return parse_services(self._ask("zypper", "--non-interactive", "ps", "-sss", ok=_DONE))

    def products(self, every: bool, root: str) -> List[Dict[str, Any]]:
        """Return the installed products, or with *every* also those of the repositories."""
        words = ["--root", root] if root else []
        words += ["products"] if every else ["--disable-repositories", "products", "-i"]
        found = parse_products(self._xml(*words))
        return [_with_oem(product, root) for product in found]

    def patches(self) -> Dict[str, Dict[str, Any]]:
        """Return the patches of the repositories."""
        return parse_patches(self._xml("--no-refresh", "search", "--type", "patch"))

    def install_patches(self, names: Sequence[str], download_only: bool) -> None:
        """Install patches."""
        words = ["zypper", "--non-interactive", "install", "--auto-agree-with-licenses"]
        words += ["--download-only"] if download_only else []
        targets = [f"patch:{name}" for name in names]
        self._run(*words, "--", *targets, ok=(*_DONE, 106))

    def locks(self) -> Dict[str, Dict[str, str]]:
        """Return the locks of zypper's file."""
        try:
            with _LOCKS.open(encoding="utf-8", errors="replace") as handle:
                return parse_locks(handle.read(_LOCKS_BYTES))
        except FileNotFoundError:
            return {}

    def clean_locks(self) -> int:
        """Remove the locks that lock nothing; return how many."""
        out = self._run(
            "zypper", "--non-interactive", "--xmlout", "cleanlocks", "--only-useless", ok=_DONE
        )
        for message in xml_of(out).iter("message"):
            first = (message.text or "").split(" ")[0]
            if first.isdigit():
                return int(first)
        return 0


def _with_oem(product: Dict[str, Any], root: str) -> Dict[str, Any]:
    """Return a product with the release that an OEM's file gives it."""
    line = str(product.get("productline") or "")
    if not line or "/" in line:
        return product
    try:
        with (Path(root or "/") / _OEM / line).open(encoding="utf-8") as handle:
            release = handle.readline(1024).strip()
    except OSError:
        return product
    return {**product, "release": release} if release else product
