"""The rpm database, for dnf and zypper."""

from __future__ import annotations

from typing import Dict, List, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.provider import Installed, Tool

_FORMAT = "%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"
#: rpm's own comparison, called through its macro language.
_COMPARE = "%{lua: print(rpm.vercmp(arg[1], arg[2]))}"


def parse_installed(text: str) -> Installed:
    """Return the installed packages of `rpm -qa` in _FORMAT: name -> [epoch:]version-release."""
    found: Installed = {}
    for line in text.splitlines():
        name, epoch, version, _ = [*line.split("\t"), "", "", ""][:4]
        # The vendor's keys are in the same database but are no packages.
        if version and name != "gpg-pubkey":
            found.setdefault(name, []).append(
                version if epoch in ("0", "") else f"{epoch}:{version}"
            )
    return {name: sorted(versions) for name, versions in found.items()}


def split_version(version: str) -> tuple[int, str, str]:
    """Return epoch, version and release of [epoch:]version[-release]."""
    epoch, colon, rest = version.rpartition(":")
    upstream, _, release = rest.partition("-")
    return (int(epoch) if colon and epoch.isdigit() else 0), upstream, release


class RpmDatabase:
    """Queries of the rpm database of a host."""

    def __init__(self, context: Context, env: Dict[str, str]) -> None:
        self._ask = Tool(context, {"LC_ALL": "C.UTF-8", **env}, looks=True)

    def installed(self) -> Installed:
        """Return the installed versions by package name."""
        return parse_installed(self._ask("rpm", "-qa", "--queryformat", _FORMAT))

    def compare(self, left: str, right: str) -> int:
        """Compare two versions by rpm's rules; as in dnf, a missing release matches any."""
        first, second = split_version(left), split_version(right)
        if first[0] != second[0]:
            return -1 if first[0] < second[0] else 1
        found = self._segment(first[1], second[1])
        if found or not first[2] or not second[2]:
            return found
        return self._segment(first[2], second[2])

    def _segment(self, left: str, right: str) -> int:
        if left == right:
            return 0
        # The macro reads the texts as a Lua expression, so only characters of versions are
        # allowed.
        for text in (left, right):
            if not all(char.isalnum() or char in ".+~^_-" for char in text):
                raise CommandExecutionError(f"{text!r} is no version")
        macro = _COMPARE.replace("arg[1]", f"'{left}'").replace("arg[2]", f"'{right}'")
        return int(self._ask("rpm", "--eval", macro).strip())

    def files_of(self, name: str) -> List[str]:
        """Return the files of an installed package."""
        return self._ask("rpm", "-ql", "--", name).splitlines()

    def owner_of(self, path: str) -> str:
        """Return the package that *path* belongs to, or ""."""
        code, out, _ = self._ask.status("rpm", "-qf", "--queryformat", "%{NAME}\\n", "--", path)
        return out.split("\n")[0].strip() if code == 0 else ""


def specs(names_versions: Sequence[tuple[str, str]], joint: str) -> List[str]:
    """Return name<joint>version arguments; a given epoch is kept."""
    return [f"{name}{joint}{version}" if version else name for name, version in names_versions]
