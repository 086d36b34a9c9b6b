"""Debian and derivatives: query with dpkg-query, change with apt-get."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Sequence

from catena.core.context import Context
from catena.modules.pkg.apt_inventory import AptInventory
from catena.modules.pkg.inventory import UpgradeOptions
from catena.modules.pkg.provider import Installed, InstallOptions, Tool, WantedPackage

#: Seconds that apt waits for another process's lock; by default it fails at once.
LOCK_SECONDS = 300
_QUERY = "${Package}\t${Architecture}\t${Version}\t${db:Status-Abbrev}\n"
#: `Inst name [old] (new repo…)` of a simulated run.
_INST = re.compile(r"Inst (\S+) (?:\[\S+\] )?\((\S+) ")


def install_command(wanted: Sequence[WantedPackage], options: InstallOptions) -> List[str]:
    """Return the apt-get command line that installs."""
    words = [*_apt_get("install")]
    if options.downgrade:
        words.append("--allow-downgrades")
    if options.skip_verify:
        words.append("--allow-unauthenticated")
    if not options.recommends:
        words.append("--no-install-recommends")
    if options.download_only:
        words.append("--download-only")
    if options.from_repo:
        words += ["-t", options.from_repo]
    targets = list(options.files) or [
        f"{item.name}={item.version}" if item.version else item.name for item in wanted
    ]
    return [*words, *options.extra, "--", *targets]


def upgrade_command(options: UpgradeOptions) -> List[str]:
    """Return the apt-get command line that upgrades."""
    if options.names:
        words = [*_apt_get("install"), "--only-upgrade"]
    else:
        words = _apt_get("dist-upgrade" if options.dist else "upgrade")
    if options.dry_run:
        words.append("--simulate")
    if options.download_only:
        words.append("--download-only")
    if options.skip_verify:
        words.append("--allow-unauthenticated")
    for repository in options.from_repos:
        words += ["-t", repository]
    return [*words, *(["--", *options.names] if options.names else [])]


def _apt_get(*verb: str) -> List[str]:
    return [
        "apt-get", "-q", "-y",
        "-o", "Dpkg::Options::=--force-confold",
        "-o", "Dpkg::Options::=--force-confdef",
        "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}",
        *verb,
    ]  # fmt: skip


def parse_installed(text: str, native: str) -> Installed:
    """Return the installed packages of dpkg-query's answer to _QUERY.

    Packages of a foreign architecture are `name:arch`, as dpkg and Salt write them.
    """
    found: Installed = {}
    for line in text.splitlines():
        name, arch, version, status = [*line.split("\t"), "", "", ""][:4]
        # Second letter: i means installed; other states are removed or incomplete.
        if status[1:2] == "i" and version:
            key = name if arch in (native, "all") else f"{name}:{arch}"
            found.setdefault(key, []).append(version)
    return found


def parse_policy(text: str, names: Iterable[str]) -> Dict[str, str]:
    """Return the candidate versions of `apt-cache policy`."""
    found = dict.fromkeys(names, "")
    current = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = line.rstrip(":")
        elif line.strip().startswith("Candidate:") and current in found:
            version = line.split(":", 1)[1].strip()
            found[current] = "" if version == "(none)" else version
    return found


def parse_simulated(text: str) -> Dict[str, str]:
    """Return the upgrades that `apt-get -s` announces: name -> new version."""
    return {match[1]: match[2] for match in map(_INST.match, text.splitlines()) if match}


class Apt:
    """Provider for apt-get, apt-cache, apt-mark and dpkg."""

    name = "apt"

    def __init__(self, context: Context) -> None:
        env = {
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
            "APT_LISTCHANGES_FRONTEND": "none",
            "NEEDRESTART_MODE": "l",
            "UCF_FORCE_CONFFOLD": "1",
        }
        self._ask = Tool(context, env, looks=True)
        self._run = Tool(context, env)
        self.inventory = AptInventory(self._ask, self._run, _apt_get())

    def installed(self) -> Installed:
        """Return the installed versions by package name."""
        native = self._ask("dpkg", "--print-architecture").strip()
        # Code 1: no package matches, which is an empty system.
        return parse_installed(
            self._ask("dpkg-query", "--showformat", _QUERY, "--show", ok=(0, 1)), native
        )

    def candidates(self, names: Sequence[str]) -> Dict[str, str]:
        """Return the candidate of each name, "" where there is none."""
        return parse_policy(self._ask("apt-cache", "-q", "policy", "--", *names), names)

    def upgrades(self) -> Dict[str, str]:
        """Return the packages that `apt-get dist-upgrade` would upgrade."""
        installed = self.installed()
        planned = parse_simulated(self._ask(*_apt_get("dist-upgrade"), "--simulate"))
        return {name: version for name, version in planned.items() if name in installed}

    def refresh(self) -> None:
        """Fetch the repositories' indexes; a repository that fails is an error."""
        self._run(*_apt_get("update"), "--error-on=any")

    def install(self, wanted: Sequence[WantedPackage], options: InstallOptions) -> None:
        """Install packages or change them to the wanted versions."""
        self._run(*install_command(wanted, options))

    def remove(self, names: Sequence[str], purge: bool) -> None:
        """Remove or purge packages."""
        self._run(*_apt_get("purge" if purge else "remove"), "--", *names)

    def upgrade_all(self, options: UpgradeOptions) -> str:
        """Upgrade packages; return what apt-get printed."""
        return self._run(*upgrade_command(options))

    def compare(self, left: str, right: str) -> int:
        """Compare two versions by dpkg's rules."""
        for operator, answer in (("lt", -1), ("eq", 0)):
            if self._ask.status("dpkg", "--compare-versions", left, operator, right)[0] == 0:
                return answer
        return 1

    def hold(self, names: Sequence[str], on: bool) -> None:
        """Hold or unhold packages."""
        self._run("apt-mark", "hold" if on else "unhold", "--", *names)

    def held(self) -> List[str]:
        """Return the packages that are held."""
        return self._ask("apt-mark", "showhold").split()

    def files_of(self, name: str) -> List[str]:
        """Return the files of an installed package."""
        return self._ask("dpkg-query", "--listfiles", "--", name).splitlines()

    def owner_of(self, path: str) -> str:
        """Return the package that *path* belongs to, or ""."""
        code, out, _ = self._ask.status("dpkg-query", "--search", "--", path)
        return out.rpartition(": ")[0].split(",")[0].strip() if code == 0 else ""
