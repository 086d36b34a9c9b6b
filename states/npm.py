"""npm.*: packages of Node.js, of the host or of a project's folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.npm import program, semver
from catena.modules.npm.functions import checked_package
from catena.modules.npm.program import NodeFolder, NodePackage
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)
_SPEC = re.compile(r"(?P<name>@[^@\s/]+/[^@\s/]+|[^@\s/:]+)(?:@(?P<want>.+))?\Z")
#: Beginnings and ends of what is no name of a registry.
_ADDRESS = re.compile(
    r"(?:\.{1,2}/|/|~/|[a-z+]+:)|.*\.(?:tgz|tar\.gz|tar)\Z|[^@/][^/]*/", re.IGNORECASE
)


@dataclass(frozen=True)
class _Wanted:
    """A package as a state names it."""

    line: str
    #: "" if only an installation shows it.
    name: str = ""
    #: Version, range or tag; "" for any.
    want: str = ""
    #: Path or URL; "" for a package of a registry.
    address: str = ""


def _parsed(value: Any) -> _Wanted:
    """Return a package.

    Raises:
        UsageError: it is none.
    """
    line = checked_package(value)
    if _ADDRESS.match(line) and not line.startswith("@"):
        return _Wanted(line, address=line)
    found = _SPEC.match(line)
    if found is None:
        raise UsageError(f"{line[:80]!r} is no package of npm")
    want = (found["want"] or "").strip()
    if _ADDRESS.match(want):
        return _Wanted(line, found["name"], address=want)
    return _Wanted(line, found["name"], want)


def _met(wanted: _Wanted, present: Mapping[str, NodePackage], made: NodeFolder) -> Optional[str]:
    """Return NAME@VERSION of the installed package that is wanted; None if there is none."""
    if wanted.address:
        return next(
            (
                f"{one.name}@{one.version}"
                for one in present.values()
                if wanted.name in ("", one.name) and _is_from(one, wanted.address, made)
            ),
            None,
        )
    found = present.get(wanted.name)
    if found is None:
        return None
    fits = not wanted.want or semver.satisfies(found.version, wanted.want)
    return f"{found.name}@{found.version}" if fits else None


def _is_from(one: NodePackage, address: str, made: NodeFolder) -> bool:
    """Return whether npm has noted that a package was installed from an address."""
    bare = address[len("file:") :] if address.startswith("file:") else address
    if bare.startswith(("/", "./", "../")) or (
        "://" not in bare and bare.endswith((".tgz", ".gz"))
    ):
        wanted = os.path.realpath(os.path.join(made.folder or "/", bare))  # noqa: PTH118
        if os.path.islink(one.path) and os.path.realpath(one.path) == wanted:  # noqa: PTH114
            return True
        noted = one.resolved[len("file:") :] if one.resolved.startswith("file:") else ""
        bases = (made.folder or "/", str(Path(one.path).parent), one.path)
        return bool(noted) and any(
            os.path.realpath(os.path.join(base, noted)) == wanted  # noqa: PTH118
            for base in bases
        )
    plain, _, revision = address.partition("#")
    noted_plain, _, commit = one.resolved.partition("#")
    tails = (plain.partition("://")[2], noted_plain.partition("://")[2])
    same = bool(tails[0]) and tails[0].removesuffix(".git") == tails[1].removesuffix(".git")
    return same and (not revision or (len(revision) >= 7 and commit.startswith(revision)))


def _is_archive(path: str) -> bool:
    return path.endswith((".tgz", ".tar.gz", ".tar"))


def _looked_up(
    context: Context, made: NodeFolder, pkgs: Any, again: bool
) -> Dict[str, Optional[str]]:
    """Return for each package that is wanted NAME@VERSION of what is there; None: nothing is.

    Raises:
        CommandExecutionError: npm is missing or failed.
        UsageError: one of them is no package.
    """
    if not isinstance(pkgs, (list, tuple)):
        raise UsageError("pkgs must be a list")
    wanted = [_parsed(one) for one in pkgs]
    present = program.installed(context, made)
    return {one.line: None if again else _met(one, present, made) for one in wanted}


@state()
def installed(
    context: Context,
    /,
    name: str,
    pkgs: Any = None,
    dir: Optional[str] = None,
    user: Optional[str] = None,
    force_reinstall: bool = False,
    registry: Optional[str] = None,
    env: Any = None,
) -> StateResult:
    """Install packages of Node.js.

    Args:
        context: the call's context.
        name: NAME, NAME@VERSION or NAME@RANGE, an address or a path; ignored with *pkgs*.
        pkgs: list of such packages.
        dir: folder of a project; default: the packages of the host.
        user: runs npm.
        force_reinstall: install packages that are there too.
        registry: address of a registry.
        env: more environment variables.
    """
    try:
        made = program.place(dir, user, env, registry)
        met = _looked_up(context, made, pkgs or [name], truth(force_reinstall))
    except _REFUSALS as problem:
        return failed(hide_credentials(f"Error looking up '{name}': {problem}"))
    missing = [line for line, found in met.items() if found is None]
    satisfied = ", ".join(found for found in met.values() if found)
    names = ", ".join(met)
    there = f"Package(s) '{names}' satisfied by {satisfied}"
    if not missing:
        return done(there)
    if context.test:
        told = f"NPM package(s) '{', '.join(missing)}' are set to be installed"
        changes = {"old": [], "new": missing}
        return would(f"{told}. {there}" if satisfied else told, changes)
    arguments = {"dir": dir, "runas": user, "registry": registry, "env": env}
    return _install(context, made, missing, arguments, there, truth(force_reinstall))


def _install(
    context: Context,
    made: NodeFolder,
    missing: List[str],
    arguments: Mapping[str, Any],
    there: str,
    again: bool,
) -> StateResult:
    """Install packages; *there* is the comment if npm changes nothing, unless *again*."""
    names = ", ".join(missing)
    try:
        before = program.installed(context, made)
        context.call("npm.install", pkgs=missing, **arguments)
        after = program.installed(context, made, fresh=True)
    except _REFUSALS as problem:
        return failed(f"Error installing '{names}': {problem}")
    if after == before and not again:
        # A tag, or an address whose package was there already.
        found = ", ".join(f"{one.name}@{one.version}" for one in after.values())
        return done(there if not there.endswith(" ") else f"{there}{found}")
    return done(f"Package(s) '{names}' successfully installed", {"old": [], "new": missing})


@state()
def removed(
    context: Context, /, name: str, dir: Optional[str] = None, user: Optional[str] = None
) -> StateResult:
    """Make sure that a package of Node.js is not installed.

    Args:
        context: the call's context.
        name: of the package.
        dir: folder of a project; default: the packages of the host.
        user: runs npm.
    """
    try:
        made = program.place(dir, user, None)
        if name not in program.installed(context, made):
            return done(f"Package '{name}' is not installed")
        if context.test:
            return would(f"Package '{name}' is set to be removed")
        context.call("npm.uninstall", name, dir=dir, runas=user)
        if name in program.installed(context, made, fresh=True):
            return failed(f"Error removing package '{name}': npm succeeded, but it is there")
    except _REFUSALS as problem:
        return failed(f"Error uninstalling '{name}': {problem}")
    return done(f"Package '{name}' was successfully removed", {name: "Removed"})


@state()
def bootstrap(
    context: Context, /, name: str, user: Optional[str] = None, silent: bool = True
) -> StateResult:
    """Install what a folder's package.json asks for.

    Args:
        context: the call's context.
        name: the folder.
        user: runs npm.
        silent: without effect.
    """
    try:
        if context.test:
            count, shown = _counted(context.call("npm.planned", name, runas=user))
            if count:
                return would(f"{name} is set to be bootstrapped", {"old": [], "new": shown})
            return done(f"{name} is already bootstrapped")
        count, _ = _counted(context.call("npm.install", dir=name, runas=user))
    except _REFUSALS as problem:
        return failed(f"Error Bootstrapping '{name}': {problem}")
    if not count:
        return done("Directory is already bootstrapped")
    return done("Directory was successfully bootstrapped", {name: "Bootstrapped"})


def _counted(report: Any) -> Tuple[int, List[Any]]:
    """Return how many packages npm added, changed and removed, and those that it names."""
    found: Dict[str, Any] = report if isinstance(report, dict) else {}
    count = sum(int(found.get(key) or 0) for key in ("added", "changed", "removed"))
    rows = [row for key in ("add", "change") for row in found.get(key) or ()]
    names = [row.get("name") if isinstance(row, dict) else row for row in rows]
    return count, names or ([f"{count} packages"] if count else [])
