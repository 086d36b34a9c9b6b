"""pip.*: Python packages, in the system's Python or in virtual environments."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.addresses import hide_credentials, without_credentials
from catena.core.context import Context
from catena.core.errors import CatenaError, CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.pip import program, versions
from catena.modules.pip.options import PipInstallOptions, checked_editable, is_local
from catena.modules.pip.program import Installed, PythonEnvironment
from catena.modules.pip.requirement import Requirement, normalized, parse, parse_lines
from catena.modules.shared.arguments import listed, split, truth
from catena.states.answers import done, failed, likely_typos, would

_REFUSALS = (CommandExecutionError, UsageError)
_SUCCESS = re.compile(r"^Successfully installed (.*)$", re.MULTILINE)
_NAME = re.compile(r"(.+?)-\d")
_LAST = "All specified packages are already installed"


@dataclass(frozen=True)
class PipOptions:
    """Arguments of the states that say where pip works, and from which file."""

    bin_env: Optional[str] = None
    pip_bin: Optional[str] = None
    user: Optional[str] = None
    cwd: Optional[str] = None
    env_vars: Any = None
    requirements: Any = None
    editable: Any = None
    pkgs: Any = None
    #: Accepted and ignored, as in Salt.
    repo: Any = None


@dataclass(frozen=True)
class _Wanted:
    """A run of pip.installed: the environment, the arguments, and what is to be installed."""

    made: PythonEnvironment
    place: PipOptions
    options: PipInstallOptions
    requirements: Tuple[Requirement, ...] = ()
    #: Arguments for pip.install.
    arguments: Mapping[str, Any] = field(default_factory=dict)


@state()
def installed(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Install Python packages with pip.

    Args:
        context: the call's context.
        name: a requirement ("Django>=4,<5", "name[extra]==1.0"), a URL, a repository
            ("git+https://host/path@rev#egg=NAME") or an archive; ignored with *pkgs*.
        arguments: pkgs (a list of such requirements), requirements, editable, bin_env (folder of a
            virtual environment, a python or a pip), user, cwd, env_vars, and the options of
            pip.install.
    """
    try:
        wanted, warnings = _wanted(name, arguments)
        place = wanted.place
        if place.user and not context.call("user.info", place.user):
            return failed(f"User {place.user} does not exist")
        unsupported = _unsupported(context, wanted)
        if unsupported:
            return failed(unsupported)
        if place.requirements or place.editable:
            found = _from_files(context, wanted)
        else:
            found = _packages(context, wanted)
    except _REFUSALS as problem:
        shown = hide_credentials(str(name))
        return failed(hide_credentials(f"Error installing '{shown}': {problem}"))
    return replace(found, warnings=(*found.warnings, *warnings))


def _wanted(name: str, given: Mapping[str, Any]) -> Tuple[_Wanted, Tuple[str, ...]]:
    """Return the checked arguments of pip.installed, and warnings.

    Raises:
        CommandExecutionError: there is no such environment.
        UsageError: an argument makes no sense.
    """
    place, rest = split(PipOptions, given)
    options, rest = split(PipInstallOptions, rest)
    warnings = likely_typos(PipInstallOptions, rest, "pip.installed")
    place = replace(place, bin_env=place.bin_env or place.pip_bin)
    if place.pkgs and not isinstance(place.pkgs, (list, tuple)):
        raise UsageError("pkgs argument must be formatted as a list")
    made = program.environment(place.bin_env, place.user, place.cwd, place.env_vars)
    requirements: Tuple[Requirement, ...] = ()
    if not (place.requirements or place.editable):
        requirements = tuple(
            parse(line) for one in (place.pkgs or [name]) for line in _lines_of(one)
        )
    arguments = {
        key: value for key, value in given.items()
        if key not in ("pip_bin", "repo", "pkgs") and key not in rest
    }  # fmt: skip
    arguments["bin_env"] = place.bin_env
    return _Wanted(made, place, options, requirements, arguments), warnings


def _lines_of(item: Any) -> List[str]:
    """Return an item of pkgs as requirements: a text, or {name: version or condition}."""
    if isinstance(item, Mapping):
        found = []
        for key, value in item.items():
            text = "" if value is None else str(value).strip()
            found.append(f"{key}{text if re.match(r'[<>=!~]', text) or not text else '==' + text}")
        return found
    return [str(item)]


def _unsupported(context: Context, wanted: _Wanted) -> str:
    """Return why an option of old versions of pip can't be used; or ""."""
    for name in ("use_wheel", "no_use_wheel"):
        if not truth(getattr(wanted.options, name)):
            continue
        current = str(context.call("pip.version", wanted.place.bin_env, user=wanted.place.user))
        known, last = versions.parse(current), versions.parse("9.0.3")
        if known is None or last is None or known.key() > last.key():
            return (
                f"The '{name}' option is only supported in pip between 1.4 and 9.0.3. The version "
                f"of pip detected was {current}."
            )
    return ""


def _packages(context: Context, wanted: _Wanted) -> StateResult:
    """Install the requirements that are not met."""
    present = program.installed(context, wanted.made)
    notes, missing = _sorted_out(context, wanted, present)
    if missing and not context.test:
        # A program may have installed it in a folder that the remembered list did not have.
        current = program.installed(context, wanted.made, fresh=True)
        if current != present:
            present = current
            notes, missing = _sorted_out(context, wanted, present)
    if not missing:
        last = f"{_LAST} and up-to-date" if truth(wanted.options.upgrade) else _LAST
        return done("\n".join([*notes, last]))
    if context.test:
        if len(wanted.requirements) == 1:
            return would(f"Python package {missing[0].shown()} is set to be installed")
        names = "\n".join(one.shown() for one in missing)
        return would(f"Python package(s) set to be installed:\n{names}")
    ran = context.call("pip.install", pkgs=[one.line for one in missing], **wanted.arguments)
    if ran["retcode"]:
        names = ", ".join(one.shown() for one in missing)
        told = hide_credentials(f"{ran['stdout']} {ran['stderr']}".strip())
        notes.append(f"Failed to install packages: {names}. Error: {told}")
        return failed("\n".join(notes))
    return _installed(context, wanted, missing, present, notes)


def _sorted_out(
    context: Context, wanted: _Wanted, present: Mapping[str, Installed]
) -> Tuple[List[str], List[Requirement]]:
    """Return notes about requirements that are met, and the other requirements."""
    notes: List[str] = []
    missing: List[Requirement] = []
    for one in wanted.requirements:
        note = _met(context, wanted, one, present)
        if note:
            notes.append(note)
        else:
            missing.append(one)
    return notes, missing


def _met(
    context: Context, wanted: _Wanted, one: Requirement, present: Mapping[str, Installed]
) -> str:
    """Return a sentence if a requirement is met; "" if it is to be installed."""
    options = wanted.options
    if truth(options.ignore_installed) or truth(options.force_reinstall) or options.target:
        return ""
    there = f"Python package {one.shown()} was already installed"
    if not one.name:
        recorded = not truth(options.upgrade) and _is_recorded(context, wanted, one.address)
        return there if recorded else ""
    found = present.get(one.name)
    if found is None:
        return ""
    if not truth(options.upgrade):
        return there if versions.satisfies(found.version, one.specifiers) else ""
    if one.address:
        return ""
    return _newest(context, wanted, one, found, there)


def _newest(
    context: Context, wanted: _Wanted, one: Requirement, found: Installed, there: str
) -> str:
    """Return a sentence if the index has no newer version that the requirement accepts."""
    asked = [parsed for part in one.specifiers if (parsed := versions.parse(part.version))]
    kinds = {parsed.pre[0] for parsed in asked if parsed.pre}
    any_kind = truth(wanted.options.pre_releases)
    place, options = wanted.place, wanted.options
    offered = context.call(
        "pip.list_all_versions", one.name, place.bin_env,
        include_alpha=any_kind or "a" in kinds, include_beta=any_kind or "b" in kinds,
        include_rc=any_kind or "rc" in kinds, user=place.user, cwd=place.cwd,
        index_url=options.index_url, extra_index_url=options.extra_index_url,
        find_links=options.find_links, no_index=options.no_index, proxy=options.proxy,
        env_vars=place.env_vars,
    )  # fmt: skip
    fitting = [text for text in offered or () if versions.satisfies(text, one.specifiers)]
    if not fitting:
        if not versions.satisfies(found.version, one.specifiers):
            return ""
        return (
            f"Python package {one.name} was already installed and\nthe available upgrade doesn't "
            "fulfills the version requirements"
        )
    newest, have = versions.parse(fitting[-1]), versions.parse(found.version)
    if newest is None or have is None:
        return there if fitting[-1] == found.version else ""
    fits = versions.satisfies(found.version, one.specifiers)
    return there if fits and have.key() >= newest.key() else ""


def _is_recorded(context: Context, wanted: _Wanted, address: str) -> bool:
    """Return whether pip has noted that a package was installed from an address.

    The content of a folder may have changed since, so a folder never counts as installed.
    """
    if "://" not in address:
        return False
    plain = without_credentials(address.partition("#")[0])
    place = wanted.place
    lines = context.call(
        "pip.freeze", place.bin_env, user=place.user, cwd=place.cwd, env_vars=place.env_vars
    )
    for line in lines:
        _, mark, where = str(line).partition(" @ ")
        noted = without_credentials(where.partition("#")[0])
        if mark and (noted == plain or _is_revision(noted, plain)):
            return True
    return False


def _is_revision(noted: str, plain: str) -> bool:
    """Return whether "git+URL@COMMIT" was installed from "git+URL", or from that commit."""
    address, mark, commit = noted.rpartition("@")
    if not mark or not noted.startswith(("git+", "hg+", "svn+", "bzr+")):
        return False
    return plain == address or (len(commit) >= 7 and plain == f"{address}@{commit}")


def _installed(
    context: Context,
    wanted: _Wanted,
    missing: Sequence[Requirement],
    before: Mapping[str, Installed],
    notes: List[str],
) -> StateResult:
    """Return the result after pip has succeeded: the versions that are there now."""
    present = program.installed(context, wanted.made)
    again = truth(wanted.options.force_reinstall) or truth(wanted.options.ignore_installed)
    changes: Dict[str, str] = {}
    unseen = []
    for one in missing:
        found = present.get(one.name)
        if not one.name:
            changes[f"{one.shown()}==???"] = "Installed"
        elif wanted.options.target:
            changes[f"{one.shown()}"] = "Installed"
        elif found is None:
            unseen.append(
                f"There was no error installing package '{one.shown()}' although it does not show "
                "when calling 'pip.freeze'."
            )
        elif again or one.name not in before or before[one.name].version != found.version:
            changes[f"{one.name}=={found.version}"] = "Installed"
    told = unseen or ["All packages were successfully installed"]
    return done("\n".join([*notes, *told]), changes)


def _from_files(context: Context, wanted: _Wanted) -> StateResult:
    """Install from requirements files, or in editable mode."""
    place = wanted.place
    entries = [checked_editable(str(one)) for one in listed(place.editable)]
    present = program.installed(context, wanted.made)
    again = truth(wanted.options.force_reinstall) or truth(wanted.options.upgrade)
    if not again and entries and not place.requirements:
        if all(_is_editable(entry, present, wanted.made.where.cwd) for entry in entries):
            return done(_LAST)
    if context.test:
        return _would_from_files(context, wanted, present, again)
    before = context.call("pip.freeze", **_place(place))
    ran = context.call("pip.install", **wanted.arguments)
    files = _shown(place.requirements)
    if ran["retcode"]:
        told = []
        if place.requirements:
            told.append(f'Unable to process requirements file "{files}"')
        if entries:
            told.append(f"Unable to install from VCS checkout {_shown(place.editable)}.")
        told.append(f"Error: {ran['stdout']} {ran['stderr']}".rstrip())
        return failed(hide_credentials(" ".join(told)))
    changed = before != context.call("pip.freeze", **_place(place)) or _reinstalled(
        ran["stdout"], program.installed(context, wanted.made), present
    )
    return _changed(place, changed)


def _changed(place: PipOptions, changed: bool) -> StateResult:
    told = []
    changes: Dict[str, Any] = {}
    if place.requirements:
        if changed:
            changes["requirements"] = True
            file = _shown(place.requirements)
            told.append(f"Successfully processed requirements file {file}.")
        else:
            told.append("Requirements were already installed.")
    if place.editable:
        if changed:
            changes["editable"] = True
        told.append(f"Package successfully installed from VCS checkout {_shown(place.editable)}.")
    return done(" ".join(told), changes)


def _reinstalled(
    stdout: str, present: Mapping[str, Installed], before: Mapping[str, Installed]
) -> bool:
    """Return whether pip replaced a package that is not editable by the same version."""
    found = _SUCCESS.search(stdout)
    for word in found[1].split() if found else ():
        name = normalized(match[1]) if (match := _NAME.match(word)) else word
        if name not in present or name not in before or not present[name].editable:
            return True
    return False


def _place(place: PipOptions) -> Dict[str, Any]:
    return {
        "bin_env": place.bin_env, "user": place.user, "cwd": place.cwd, "env_vars": place.env_vars
    }  # fmt: skip


def _shown(value: Any) -> str:
    return hide_credentials(",".join(str(one) for one in listed(value)))


def _is_editable(entry: str, present: Mapping[str, Installed], cwd: Optional[str]) -> bool:
    """Return whether a folder of this host is already installed in editable mode."""
    if not is_local(entry):
        return False
    bare = re.sub(r"\[[^\]]*\]\Z", "", entry.partition("#")[0])
    path = bare[len("file://") :] if bare.startswith("file://") else bare
    folder = posixpath.normpath(posixpath.join(cwd or "/", path))
    sources = {posixpath.normpath(one.editable) for one in present.values() if one.editable}
    return folder in sources


def _would_from_files(
    context: Context, wanted: _Wanted, present: Mapping[str, Installed], again: bool
) -> StateResult:
    place = wanted.place
    told = []
    if place.requirements:
        if not again and not place.editable and _all_met(context, wanted, present):
            return done("Requirements were already installed.")
        told.append(f"Requirements file '{_shown(place.requirements)}' will be processed.")
    if place.editable:
        told.append(
            'Package will be installed in editable mode (i.e. setuptools "develop mode") from '
            f"{_shown(place.editable)}."
        )
    return would(" ".join(told))


def _all_met(context: Context, wanted: _Wanted, present: Mapping[str, Installed]) -> bool:
    """Return whether every line of the requirements files is known to be met."""
    for one in listed(wanted.place.requirements):
        text = _text_of(context, str(one), wanted.made.where.cwd)
        lines = parse_lines(text) if text is not None else None
        if lines is None:
            return False
        for line in lines:
            found = present.get(line.name)
            if found is None or not versions.satisfies(found.version, line.specifiers):
                return False
    return True


def _text_of(context: Context, name: str, cwd: Optional[str]) -> Optional[str]:
    """Return a requirements file; None if it is not on this host or the master."""
    if name.startswith("salt://"):
        path, _, saltenv = name[len("salt://") :].partition("?saltenv=")
        local = context.files.fetch(path, saltenv or context.saltenv)
    else:
        local = Path(cwd or "/", name)
    try:
        return None if local is None else local.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


@state()
def removed(
    context: Context,
    /,
    name: str,
    requirements: Any = None,
    bin_env: Optional[str] = None,
    log: Optional[str] = None,
    proxy: Any = None,
    timeout: Any = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    use_vt: bool = False,
) -> StateResult:
    """Make sure that a Python package is not installed.

    Args:
        context: the call's context.
        name: of the package.
        requirements: also remove the packages of this file.
        bin_env: folder of a virtual environment, a python or a pip.
        log: file in which pip records what it does.
        proxy: address of a proxy.
        timeout: seconds for a connection.
        user: runs pip.
        cwd: working folder of pip.
        use_vt: without effect.
    """
    try:
        wanted = normalized(parse(str(name)).name or str(name))
        if wanted not in context.call("pip.list", bin_env=bin_env, user=user, cwd=cwd):
            return done("Package is not installed.")
        if context.test:
            return would(f"Package {name} is set to be removed")
        ran = context.call(
            "pip.uninstall", pkgs=[wanted], requirements=requirements, bin_env=bin_env, log=log,
            proxy=proxy, timeout=timeout, user=user, cwd=cwd,
        )  # fmt: skip
        if ran["retcode"]:
            return failed(f"Could not remove package. {ran['stderr'] or ran['stdout']}".strip())
        if wanted in context.call("pip.list", bin_env=bin_env, user=user, cwd=cwd):
            return failed(f"Could not remove package. {ran['stderr'] or ran['stdout']}".strip())
    except _REFUSALS as problem:
        return failed(hide_credentials(f"Error uninstalling '{name}': {problem}"))
    return done("Package was successfully removed.", {name: "Removed"})


@state()
def uptodate(
    context: Context,
    /,
    name: str,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    use_vt: bool = False,
) -> StateResult:
    """Upgrade all Python packages of an environment.

    Args:
        context: the call's context.
        name: of the state, without further meaning.
        bin_env: folder of a virtual environment, a python or a pip.
        user: runs pip.
        cwd: working folder of pip.
        use_vt: without effect.
    """
    try:
        if not context.call("pip.list_upgrades", bin_env=bin_env, user=user, cwd=cwd):
            return done("System is already up-to-date.")
        if context.test:
            return would("System update will be performed")
        found = context.call("pip.upgrade", bin_env=bin_env, user=user, cwd=cwd)
    except CatenaError as problem:
        return failed(str(problem))
    if not found["result"]:
        return failed(str(found["comment"]) or "Upgrade failed.", found["changes"])
    return done("Upgrade successful.", found["changes"])
