"""Fedora, RHEL and derivatives: dnf and the rpm database."""

from __future__ import annotations

from typing import Dict, List, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.dnf_inventory import DnfInventory
from catena.modules.pkg.inventory import UpgradeOptions
from catena.modules.pkg.provider import Installed, InstallOptions, Tool, WantedPackage
from catena.modules.pkg.rpm import RpmDatabase, specs

_LIST_FORMAT = "%{name}\\t%{epoch}\\t%{version}-%{release}\\n"


def install_command(wanted: Sequence[WantedPackage], options: InstallOptions) -> List[str]:
    """Return the dnf command line that installs."""
    words = ["dnf", "-q", "-y"]
    if options.skip_verify:
        words.append("--nogpgcheck")
    if options.from_repo:
        words += ["--disablerepo=*", f"--enablerepo={options.from_repo}"]
    if not options.recommends:
        words.append("--setopt=install_weak_deps=False")
    if options.download_only:
        words.append("--downloadonly")
    targets = list(options.files) or specs([(i.name, i.version) for i in wanted], "-")
    return [*words, *options.extra, "install", "--", *targets]


def upgrade_command(options: UpgradeOptions) -> List[str]:
    """Return the dnf command line that upgrades."""
    # With -q dnf says nothing about a transaction that it does not carry out.
    words = ["dnf", "--assumeno"] if options.dry_run else ["dnf", "-q", "-y"]
    if options.skip_verify:
        words.append("--nogpgcheck")
    if options.from_repos:
        words += ["--disablerepo=*", *(f"--enablerepo={name}" for name in options.from_repos)]
    if options.download_only:
        words.append("--downloadonly")
    return [*words, "distro-sync" if options.dist else "upgrade", "--", *options.names]


def parse_listed(text: str) -> Dict[str, str]:
    """Parse a repoquery in _LIST_FORMAT into versions by name; the last line of a name wins."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("\t")
        epoch, _, version = rest.partition("\t")
        if version:
            found[name] = version if epoch in ("0", "") else f"{epoch}:{version}"
    return found


class Dnf:
    """Provider for dnf (or yum as its alias) and rpm."""

    name = "dnf"

    def __init__(self, context: Context) -> None:
        self._ask = Tool(context, {"LC_ALL": "C.UTF-8"}, looks=True)
        self._run = Tool(context, {"LC_ALL": "C.UTF-8"})
        self._rpm = RpmDatabase(context, {})
        self.inventory = DnfInventory(context, self._ask, self._run)

    def installed(self) -> Installed:
        """Return the installed versions by package name."""
        return self._rpm.installed()

    def candidates(self, names: Sequence[str]) -> Dict[str, str]:
        """Return the newest version that the repositories offer, "" for unknown names."""
        text = self._ask(
            "dnf", "-q", "repoquery", "--available", "--latest-limit=1",
            "--queryformat", _LIST_FORMAT, "--", *names,
        )  # fmt: skip
        return {**dict.fromkeys(names, ""), **parse_listed(text)}

    def upgrades(self) -> Dict[str, str]:
        """Return every installed package that has a newer version."""
        return parse_listed(
            self._ask("dnf", "-q", "repoquery", "--upgrades", "--latest-limit=1",
                      "--queryformat", _LIST_FORMAT)
        )  # fmt: skip

    def refresh(self) -> None:
        """Fetch the repositories' indexes."""
        self._run("dnf", "-q", "-y", "clean", "expire-cache")
        self._run("dnf", "-q", "-y", "makecache")

    def install(self, wanted: Sequence[WantedPackage], options: InstallOptions) -> None:
        """Install packages; dnf needs a separate command for downgrades."""
        installed = self.installed()
        down = [item for item in wanted if self._is_older(item, installed)]
        up = [item for item in wanted if item not in down]
        if up or options.files:
            self._run(*install_command(up, options))
        if down:
            if not options.downgrade:
                names = ", ".join(item.name for item in down)
                raise CommandExecutionError(
                    f"newer than wanted, and no downgrade allowed: {names}"
                )
            command = install_command(down, options)
            command[command.index("install")] = "downgrade"
            self._run(*command)

    def _is_older(self, item: WantedPackage, installed: Installed) -> bool:
        present = installed.get(item.name)
        return bool(item.version and present and self.compare(item.version, present[-1]) < 0)

    def remove(self, names: Sequence[str], purge: bool) -> None:
        """Remove packages; rpm has no purge."""
        self._run("dnf", "-q", "-y", "remove", "--", *names)

    def upgrade_all(self, options: UpgradeOptions) -> str:
        """Upgrade packages; return what dnf printed."""
        # With --assumeno dnf ends with code 1 if there is something to do.
        return self._run(*upgrade_command(options), ok=(0, 1) if options.dry_run else (0,))

    def compare(self, left: str, right: str) -> int:
        """Compare two versions by rpm's rules."""
        return self._rpm.compare(left, right)

    def hold(self, names: Sequence[str], on: bool) -> None:
        """Hold or unhold packages; needs dnf's versionlock plug-in."""
        self._run("dnf", "-q", "-y", "versionlock", "add" if on else "delete", "--", *names)

    def held(self) -> List[str]:
        """Return the packages that are held."""
        code, out, _ = self._ask.status("dnf", "-q", "versionlock", "list")
        return out.split() if code == 0 else []

    def files_of(self, name: str) -> List[str]:
        """Return the files of an installed package."""
        return self._rpm.files_of(name)

    def owner_of(self, path: str) -> str:
        """Return the package that *path* belongs to, or ""."""
        return self._rpm.owner_of(path)
