"""The interface of package managers, and the runner of their commands.

Every provider keeps three things apart: building a command line (pure), parsing what it prints
(pure), and running it (`Tool`). The first two are tested with saved text, the whole with real
repositories.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, Dict, List, Mapping, Protocol, Sequence, Tuple
from xml.etree import ElementTree

from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.modules.pkg.inventory import Inventory, UpgradeOptions

#: Grammar of package names: no leading hyphen (an option) and no shell characters. apt would
#: remove
#: a package whose name ends with a hyphen.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:~@/-]*(?<!-)\Z")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~^:_-]*\Z")

#: Installed versions by name (several kernels may be installed together).
Installed = Dict[str, List[str]]


@dataclass(frozen=True)
class WantedPackage:
    """One requested package."""

    name: str
    #: The requested version; "" for the newest.
    version: str = ""


@dataclass(frozen=True)
class InstallOptions:
    """Options of an installation."""

    #: Install from these files instead of repositories.
    files: Tuple[str, ...] = ()
    #: Allow versions below the installed one.
    downgrade: bool = True
    #: Only from these repositories.
    from_repo: str = ""
    #: Skip the check of signatures (Salt's skip_verify).
    skip_verify: bool = False
    #: Install recommended packages too.
    recommends: bool = True
    #: Fetch the packages, but install nothing.
    download_only: bool = False
    #: Additional options for the tool, as `extra_args` in Salt.
    extra: Tuple[str, ...] = field(default_factory=tuple)


class Provider(Protocol):
    """One package manager."""

    #: Name under which `pkg.provider` shows it.
    name: str

    @property
    def inventory(self) -> Inventory:
        """Answers the questions of inventories."""

    def installed(self) -> Installed:
        """Return the installed versions by package name."""

    def candidates(self, names: Sequence[str]) -> Dict[str, str]:
        """Return the newest version that the repositories offer, "" for unknown names."""

    def upgrades(self) -> Dict[str, str]:
        """Return every installed package that has a newer version, with that version."""

    def refresh(self) -> None:
        """Fetch the repositories' indexes."""

    def install(self, wanted: Sequence[WantedPackage], options: InstallOptions) -> None:
        """Install packages or change them to the wanted versions."""

    def remove(self, names: Sequence[str], purge: bool) -> None:
        """Remove packages; with *purge*, also their configuration if the tool supports it."""

    def upgrade_all(self, options: UpgradeOptions) -> str:
        """Upgrade packages; return what the manager printed."""

    def compare(self, left: str, right: str) -> int:
        """Return -1, 0 or 1 if *left* is older than, equal to or newer than *right*."""

    def hold(self, names: Sequence[str], on: bool) -> None:
        """Hold packages at their version, or release them."""

    def held(self) -> List[str]:
        """Return the packages that are held."""

    def files_of(self, name: str) -> List[str]:
        """Return the files of an installed package."""

    def owner_of(self, path: str) -> str:
        """Return the package that a file belongs to, or ""."""


#: Program of a package manager -> the package that has it.
PACKAGES: Mapping[str, str] = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "apt-mark": "apt",
    "dnf": "dnf",
    "dpkg": "dpkg",
    "dpkg-deb": "dpkg",
    "dpkg-query": "dpkg",
    "rpm": "rpm",
    "zypper": "zypper",
}
#: Part of the error of a program that is not installed.
_NOT_THERE = "No such file or directory"


class Tool:
    """Runs a package manager's commands on the host of a context.

    Args:
        context: its cmd.run_all runs the commands, so that deadlines and limits apply.
        env: environment of every command.
        looks: the commands are read-only, so they also run in test mode.
    """

    def __init__(self, context: Context, env: Mapping[str, str], looks: bool = False) -> None:
        self._context = context
        self._env = dict(env)
        self._looks = looks

    def __call__(
        self, *argv: str, ok: Sequence[int] = (0,), cwd: str = "", stdin: str = ""
    ) -> str:
        """Run a command and return its output.

        Args:
            argv: the command.
            ok: exit codes of success.
            cwd: folder in which it runs.
            stdin: text for the command.

        Raises:
            CommandExecutionError: it ended with a code that is not in *ok*; the message ends with
                what the tool itself said.
        """
        code, out, err = self.status(*argv, cwd=cwd, stdin=stdin)
        if code not in ok:
            said = (err.strip() or out.strip())[-2000:]
            raise CommandExecutionError(f"{argv[0]} ended with code {code}: {said}")
        return out

    def status(self, *argv: str, cwd: str = "", stdin: str = "") -> Tuple[int, str, str]:
        """Run a command; return exit code, stdout and stderr.

        Raises:
            CommandExecutionError: it can't be started; the message names the missing package.
        """
        more = {**({"cwd": cwd} if cwd else {}), **({"stdin": stdin} if stdin else {})}
        try:
            with only_looking() if self._looks else nullcontext():
                ran: Dict[str, Any] = self._context.call(
                    "cmd.run_all", list(argv), python_shell=False, env=self._env,
                    ignore_retcode=True, **more,
                )  # fmt: skip
        except CommandExecutionError as error:
            package = PACKAGES.get(argv[0])
            if package is None or _NOT_THERE not in str(error):
                raise
            raise CommandExecutionError(
                f"{argv[0]} is not available on this host: install the package {package}"
            ) from error
        return int(ran["retcode"]), str(ran["stdout"]), str(ran["stderr"])


def xml_of(text: str) -> ElementTree.Element:
    """Return the XML that a package manager printed.

    Raises:
        CommandExecutionError: it is no XML, or declares entities (which could grow without limit).
    """
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise CommandExecutionError("the package manager printed XML with declarations")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise CommandExecutionError(f"the package manager printed no XML: {error}") from None


def checked_name(name: str) -> str:
    """Return *name* if it can be a package's name; raise UsageError otherwise."""
    if not _NAME.match(name):
        raise UsageError(f"{name[:80]!r} can't be the name of a package")
    return name


def checked_version(version: str) -> str:
    """Return *version* if it can be a version; raise UsageError otherwise."""
    if version and not _VERSION.match(version):
        raise UsageError(f"{version[:80]!r} can't be the version of a package")
    return version


def changes(before: Installed, after: Installed) -> Dict[str, Dict[str, str]]:
    """Return the changes of an operation in Salt's form: {name: {"old": …, "new": …}}."""
    found = {}
    for name in sorted({*before, *after}):
        old, new = ",".join(before.get(name, ())), ",".join(after.get(name, ()))
        if old != new:
            found[name] = {"old": old, "new": new}
    return found
