"""SUSE: zypper and the rpm database."""

from __future__ import annotations

from typing import Dict, List, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.pkg.inventory import UpgradeOptions
from catena.modules.pkg.provider import Installed, InstallOptions, Tool, WantedPackage, xml_of
from catena.modules.pkg.rpm import RpmDatabase, specs
from catena.modules.pkg.zypper_inventory import ZypperInventory

#: Exit codes of success: 102 reboot needed, 103 restart of zypper needed, 106 repository skipped.
DONE = (0, 102, 103)
#: Exit code for an unknown package name.
NOTHING = 104
#: Seconds that zypper waits for another process's lock.
LOCK_SECONDS = "300"


def install_command(wanted: Sequence[WantedPackage], options: InstallOptions) -> List[str]:
    """Return the zypper command line that installs."""
    words = ["zypper", "--non-interactive", "--no-refresh"]
    if options.skip_verify:
        words.append("--no-gpg-checks")
    words += ["install", "--auto-agree-with-licenses", "--name"]
    if options.downgrade:
        words.append("--oldpackage")
    if options.from_repo:
        words += ["--from", options.from_repo]
    if not options.recommends:
        words.append("--no-recommends")
    if options.files:
        words.remove("--name")
        words.append("--allow-unsigned-rpm")
    if options.download_only:
        words.append("--download-only")
    targets = list(options.files) or specs([(i.name, i.version) for i in wanted], "=")
    return [*words, *options.extra, "--", *targets]


def upgrade_command(options: UpgradeOptions) -> List[str]:
    """Return the zypper command line that upgrades."""
    words = ["zypper", "--non-interactive"]
    if options.skip_verify:
        words.append("--no-gpg-checks")
    words += ["dist-upgrade" if options.dist else "update", "--auto-agree-with-licenses"]
    if options.dry_run:
        words.append("--dry-run")
    if options.download_only:
        words.append("--download-only")
    for repository in options.from_repos:
        words += ["--from" if options.dist else "--repo", repository]
    if options.dist and options.keep_vendor:
        words.append("--no-allow-vendor-change")
    return [*words, *(["--", *options.names] if options.names and not options.dist else [])]


def parse_search(text: str) -> Dict[str, List[str]]:
    """Parse `zypper --xmlout search --details` into editions by name, newest first.

    Raises:
        CommandExecutionError: zypper printed no XML.
    """
    found: Dict[str, List[str]] = {}
    for item in xml_of(text).iter("solvable"):
        if item.get("kind") in (None, "package") and item.get("edition"):
            found.setdefault(item.get("name", ""), []).append(item.get("edition", ""))
    return found


def parse_updates(text: str) -> Dict[str, str]:
    """Parse `zypper --xmlout list-updates` into new editions by name."""
    return {
        item.get("name", ""): item.get("edition", "")
        for item in xml_of(text).iter("update")
        if item.get("kind") == "package"
    }


class Zypper:
    """Provider for zypper and rpm."""

    name = "zypper"

    def __init__(self, context: Context) -> None:
        env = {"LC_ALL": "C.UTF-8", "ZYPP_LOCK_TIMEOUT": LOCK_SECONDS,
               "ZYPP_READONLY_HACK": "1"}  # fmt: skip
        self._ask = Tool(context, env, looks=True)
        self._run = Tool(context, {"LC_ALL": "C.UTF-8", "ZYPP_LOCK_TIMEOUT": LOCK_SECONDS})
        self._rpm = RpmDatabase(context, {})
        self.inventory = ZypperInventory(context, self._ask, self._run)

    def installed(self) -> Installed:
        """Return the installed versions by package name."""
        return self._rpm.installed()

    def candidates(self, names: Sequence[str]) -> Dict[str, str]:
        """Return the newest version that the repositories offer, "" for unknown names."""
        code, out, err = self._ask.status(
            "zypper", "--non-interactive", "--no-refresh", "--xmlout", "search", "--details",
            "--match-exact", "--type", "package", "--", *names,
        )  # fmt: skip
        if code not in (*DONE, NOTHING):
            raise CommandExecutionError(f"zypper ended with code {code}: {(err or out)[-2000:]}")
        listed = parse_search(out)
        return {name: listed[name][0] if name in listed else "" for name in names}

    def upgrades(self) -> Dict[str, str]:
        """Return every installed package that has a newer version."""
        return parse_updates(
            self._ask("zypper", "--non-interactive", "--no-refresh", "--xmlout", "list-updates",
                      "--type", "package", ok=DONE)
        )  # fmt: skip

    def refresh(self) -> None:
        """Fetch the repositories' indexes."""
        self._run("zypper", "--non-interactive", "refresh", "--force")

    def install(self, wanted: Sequence[WantedPackage], options: InstallOptions) -> None:
        """Install packages or change them to the wanted versions."""
        self._run(*install_command(wanted, options), ok=DONE)

    def remove(self, names: Sequence[str], purge: bool) -> None:
        """Remove packages; rpm has no purge."""
        self._run("zypper", "--non-interactive", "remove", "--", *names, ok=DONE)

    def upgrade_all(self, options: UpgradeOptions) -> str:
        """Upgrade packages; return what zypper printed."""
        return self._run(*upgrade_command(options), ok=DONE)

    def compare(self, left: str, right: str) -> int:
        """Compare two versions by rpm's rules."""
        return self._rpm.compare(left, right)

    def hold(self, names: Sequence[str], on: bool) -> None:
        """Lock or unlock packages."""
        verb = "addlock" if on else "removelock"
        self._run("zypper", "--non-interactive", verb, "--", *names, ok=DONE)

    def held(self) -> List[str]:
        """Return the packages that are locked."""
        out = self._ask("zypper", "--non-interactive", "--xmlout", "locks", ok=DONE)
        return [item.findtext("name") or "" for item in xml_of(out).iter("lock")]

    def files_of(self, name: str) -> List[str]:
        """Return the files of an installed package."""
        return self._rpm.files_of(name)

    def owner_of(self, path: str) -> str:
        """Return the package that *path* belongs to, or ""."""
        return self._rpm.owner_of(path)
