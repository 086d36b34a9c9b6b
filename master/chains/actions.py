"""The kinds of action in a chain, and the checks of a user's input.

The input is `client.requests.ChainAction`: a kind and a free mapping. The output is an
`ActionPlan` whose data matches the record of its kind; all other modules trust it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Dict, Optional, Tuple, Type

from catena.client.requests.chains import ChainAction
from catena.core.chain_calls import is_chain_call
from catena.core.errors import UsageError
from catena.core.job import ActionKind
from catena.core.records import decode, encode
from catena.core.suggest import unknown
from catena.master.chains import chunk_yaml

MAX_DATA_CHARACTERS = 1024 * 1024
MAX_AT_MINUTES = 24 * 60
MAX_TIMEOUT_SECONDS = 30 * 24 * 3600

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SLS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,254}\Z")
_FUNCTION = re.compile(r"[a-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}\$?\Z")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:@~/()-]{0,254}\Z")
_VERSION = re.compile(r"[A-Za-z0-9<>=!*][A-Za-z0-9+._:~^<>=!*-]{0,127}\Z")
#: Architectures in package names of rpm (name.arch) and dpkg (name:arch). The two sets are
#: disjoint, so an architecture determines the separator.
_RPM_ARCHES = frozenset(
    """aarch64 armv7hl i486 i586 i686 noarch ppc64 ppc64le riscv64 s390x x86_64""".split()
)
_DEB_ARCHES = frozenset("all amd64 arm64 armel armhf i386 mips64el ppc64el".split())
#: File name of an agent's wheel (PEP 427), which contains the version that the agent must report.
_WHEEL = re.compile(r"catena-([0-9][0-9A-Za-z.+!_]{0,63})-[A-Za-z0-9_.-]{1,100}\.whl\Z")


class BadActionError(UsageError):
    """An action is invalid."""


class ActionType(StrEnum):
    """The kinds of action."""

    script = "script"
    cmd = "cmd"
    apply = "apply"
    highstate = "highstate"
    install = "install"
    upgrade = "upgrade"
    remove = "remove"
    upgrade_agent = "upgrade_agent"
    reboot = "reboot"
    call = "call"


@dataclass(frozen=True)
class ScriptData:
    """Run an uploaded script."""

    sha256: str
    #: File name on the operator's host, for titles.
    name: str = "script"
    runas: str = ""
    group: str = ""
    timeout: Optional[int] = None


@dataclass(frozen=True)
class CmdData:
    """Run a command line."""

    cmd: str
    runas: str = ""
    timeout: Optional[int] = None


@dataclass(frozen=True)
class ApplyData:
    """Apply SLS files."""

    mods: Tuple[str, ...]
    pillar: Dict[str, Any] = field(default_factory=dict)
    test: bool = False
    #: Whether one SLS was given as a list, and is written as one. Several always are.
    listed: bool = False


@dataclass(frozen=True)
class HighstateData:
    """Apply the highstate."""


@dataclass(frozen=True)
class PackagesData:
    """Install, upgrade or remove packages.

    Each is a name and a version ("" for any), or a name, an architecture and a version.
    """

    packages: Tuple[Tuple[str, ...], ...]


@dataclass(frozen=True)
class UpgradeAgentData:
    """Upgrade the agent to the version of an uploaded wheel, or to a given version."""

    sha256: str = ""
    filename: str = ""
    version: str = ""


@dataclass(frozen=True)
class RebootData:
    """Reboot this many minutes after the end of the chunk."""

    at_minutes: int = 0


@dataclass(frozen=True)
class CallData:
    """Call an execution function."""

    fun: str
    args: Tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)


DATA: Mapping[ActionType, Type[Any]] = {
    ActionType.script: ScriptData,
    ActionType.cmd: CmdData,
    ActionType.apply: ApplyData,
    ActionType.highstate: HighstateData,
    ActionType.install: PackagesData,
    ActionType.upgrade: PackagesData,
    ActionType.remove: PackagesData,
    ActionType.upgrade_agent: UpgradeAgentData,
    ActionType.reboot: RebootData,
    ActionType.call: CallData,
}

#: How an action recovers from a crash between begin and end (`reliability.md` 3.2).
REPEAT: Mapping[ActionType, ActionKind] = {
    ActionType.script: ActionKind.once,
    ActionType.cmd: ActionKind.once,
    ActionType.call: ActionKind.once,
    ActionType.apply: ActionKind.idempotent,
    ActionType.highstate: ActionKind.idempotent,
    ActionType.install: ActionKind.idempotent,
    ActionType.upgrade: ActionKind.idempotent,
    ActionType.remove: ActionKind.idempotent,
    ActionType.upgrade_agent: ActionKind.agent_upgrade,
    ActionType.reboot: ActionKind.reboot,
}
_FIXED = frozenset({ActionType.reboot, ActionType.upgrade_agent})

#: Functions for which chains have their own actions, or that would interfere with the chain.
_REFUSED_CALLS: Mapping[str, str] = {
    "system.reboot": "use a reboot action: the chain must know of the boot",
    "system.shutdown": "a chain can't go on after it",
    "system.halt": "a chain can't go on after it",
    "system.poweroff": "a chain can't go on after it",
}


@dataclass(frozen=True)
class ActionPlan:
    """A checked action."""

    type: ActionType
    #: A record of DATA[type].
    data: Any
    repeat: ActionKind

    def stored(self) -> dict[str, Any]:
        """Return the data as plain values, for the database."""
        plain: dict[str, Any] = encode(self.data)
        return plain


def check(request: ChainAction) -> ActionPlan:
    """Return *request* as a checked action.

    Raises:
        BadActionError: unknown kind (with the nearest), an unknown or missing field, an invalid
            name, or a value out of range.
        RecordError: a field of the wrong type.
    """
    names = [member.value for member in ActionType]
    if request.kind not in names:
        raise BadActionError(unknown("action", request.kind[:80], names, few=True))
    kind = ActionType(request.kind)
    data = decode(DATA[kind], request.data, kind.value)
    if isinstance(data, PackagesData):
        data = PackagesData(tuple(_with_arch(entry) for entry in data.packages))
    _CHECKS[kind](data)
    _check_size(data)
    return ActionPlan(kind, data, _repeat(kind, request.repeat))


def restore(kind: str, data: Mapping[str, Any], repeat: str) -> ActionPlan:
    """Return an action from the data of `ActionPlan.stored`."""
    found = ActionType(kind)
    return ActionPlan(found, decode(DATA[found], data, kind), ActionKind(repeat))


def agent_version(data: UpgradeAgentData) -> str:
    """Return the version that the agent must have after an upgrade."""
    found = _WHEEL.match(data.filename)
    return data.version or (found[1] if found else "")


def title(plan: ActionPlan) -> str:
    """Return a short description of *plan* for display."""
    data = plan.data
    if plan.type is ActionType.script:
        return f"Run script {data.name}" + (f" as {data.runas}" if data.runas else "")
    if plan.type is ActionType.cmd:
        line = " ".join(data.cmd.split())
        return f"Run {line[:60]}" + ("…" if len(line) > 60 else "")
    if plan.type is ActionType.apply:
        return f"Apply {', '.join(data.mods)}" + (" (test)" if data.test else "")
    if plan.type is ActionType.highstate:
        return "Apply highstate"
    if plan.type is ActionType.upgrade_agent:
        return f"Upgrade agent to {agent_version(data)}"
    if plan.type is ActionType.reboot:
        return "Reboot" + (f" after {data.at_minutes} min" if data.at_minutes else "")
    if plan.type is ActionType.call:
        return f"Call {data.fun}"
    return f"{plan.type.value.capitalize()} {', '.join(package_name(p) for p in data.packages)}"


def package_name(entry: Sequence[str]) -> str:
    """Return a package's name with its architecture in the form of its package manager."""
    if len(entry) < 3:
        return entry[0]
    return f"{entry[0]}{':' if entry[1] in _DEB_ARCHES else '.'}{entry[1]}"


def _with_arch(entry: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return *entry* with the architecture split from the name, if the name contains one."""
    if len(entry) != 2:
        return entry
    for mark, arches in ((".", _RPM_ARCHES), (":", _DEB_ARCHES)):
        bare, found, arch = entry[0].rpartition(mark)
        if found and arch in arches:
            return bare, arch, entry[1]
    return entry


def _repeat(kind: ActionType, asked: str) -> ActionKind:
    if not asked:
        return REPEAT[kind]
    if asked not in ("idempotent", "once"):
        raise BadActionError(unknown("value of repeat", asked[:80], ["idempotent", "once"]))
    if kind in _FIXED:
        raise BadActionError(f"a {kind.value} action has its own rule; it takes no repeat")
    return ActionKind(asked)


def _match(grammar: re.Pattern[str], text: str, what: str) -> None:
    if not grammar.match(text):
        raise BadActionError(f"{text[:80]!r} is not {what}")


def _between(value: Optional[int], low: int, high: int, what: str) -> None:
    if value is not None and not low <= value <= high:
        raise BadActionError(f"{what} must be from {low} to {high}, not {value}")


def _check_script(data: ScriptData) -> None:
    _match(_SHA256, data.sha256, "a SHA-256 in hex")
    if not data.name.isprintable() or len(data.name) > 255:
        raise BadActionError("the script's name must be at most 255 printable characters")
    for name in filter(None, (data.runas, data.group)):
        _match(_USER, name, "a user or group name")
    _between(data.timeout, 1, MAX_TIMEOUT_SECONDS, "the timeout in seconds")


def _check_cmd(data: CmdData) -> None:
    if not data.cmd.strip() or "\0" in data.cmd:
        raise BadActionError("the command is empty or has a NUL in it")
    if data.runas:
        _match(_USER, data.runas, "a user name")
    _between(data.timeout, 1, MAX_TIMEOUT_SECONDS, "the timeout in seconds")


def _check_apply(data: ApplyData) -> None:
    if not data.mods:
        raise BadActionError("name at least one SLS to apply; highstate applies the top file")
    for name in data.mods:
        _match(_SLS, name, "an SLS name")
        if ".." in name or name.startswith("actionchains.actionchain_"):
            raise BadActionError(f"{name!r} can't be applied from a chain")


def _check_highstate(data: HighstateData) -> None:
    """Check nothing: the decoder has refused all fields."""


def _check_packages(data: PackagesData) -> None:
    if not data.packages:
        raise BadActionError("name at least one package")
    seen = set()
    for entry in data.packages:
        if len(entry) not in (2, 3):
            raise BadActionError(
                "a package is a name and a version ('' for any), or a name, an architecture and a "
                "version"
            )
        _match(_PACKAGE, entry[0], "a package name")
        if len(entry) == 3 and entry[1] not in _RPM_ARCHES | _DEB_ARCHES:
            known = sorted(_RPM_ARCHES | _DEB_ARCHES)
            raise BadActionError(unknown("architecture", entry[1][:80], known))
        if entry[-1]:
            _match(_VERSION, entry[-1], "a package version")
        name = package_name(entry)
        if name in seen:
            raise BadActionError(f"package {name!r} is named twice")
        seen.add(name)


def _check_upgrade_agent(data: UpgradeAgentData) -> None:
    if not data.sha256 and not data.version:
        raise BadActionError("name a wheel or a version of the agent")
    if bool(data.sha256) != bool(data.filename):
        raise BadActionError("a wheel needs both its SHA-256 and its file name")
    if data.sha256:
        _match(_SHA256, data.sha256, "a SHA-256 in hex")
        found = _WHEEL.match(data.filename)
        if found is None:
            raise BadActionError(f"{data.filename[:80]!r} is not a wheel (catena-VERSION-….whl)")
        if data.version not in ("", found[1]):
            raise BadActionError(f"{data.filename} is not of version {data.version[:80]}")
    if data.version:
        _match(_VERSION, data.version, "a version")


def _check_reboot(data: RebootData) -> None:
    _between(data.at_minutes, 0, MAX_AT_MINUTES, "the delay of the reboot in minutes")


def _check_call(data: CallData) -> None:
    _match(_FUNCTION, data.fun, "a function name (module.function)")
    if is_chain_call(data.fun):
        raise BadActionError(f"{data.fun} can't be converted to a state of a chain")
    if data.fun in _REFUSED_CALLS:
        raise BadActionError(f"{data.fun} in a chain: {_REFUSED_CALLS[data.fun]}")
    for name in data.kwargs:
        if not name.isidentifier():
            raise BadActionError(f"{name[:80]!r} is not an argument's name")


def _check_size(data: Any) -> None:
    # Writing it proves that it has a YAML form, whose length is the relevant limit.
    if len(chunk_yaml.write({"data": encode(data)})) > MAX_DATA_CHARACTERS:
        raise BadActionError(f"an action's data is limited to {MAX_DATA_CHARACTERS} characters")


_CHECKS: Mapping[ActionType, Any] = {
    ActionType.script: _check_script,
    ActionType.cmd: _check_cmd,
    ActionType.apply: _check_apply,
    ActionType.highstate: _check_highstate,
    ActionType.install: _check_packages,
    ActionType.upgrade: _check_packages,
    ActionType.remove: _check_packages,
    ActionType.upgrade_agent: _check_upgrade_agent,
    ActionType.reboot: _check_reboot,
    ActionType.call: _check_call,
}
