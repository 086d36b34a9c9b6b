"""Find pip for an environment, run it, and remember what is installed there during a run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.modules.pip.requirement import normalized
from catena.modules.shared import programs, tools
from catena.modules.shared.arguments import mapped
from catena.modules.shared.command.run import Ran
from catena.modules.shared.tools import Where

#: Key in the run's scratch data: installed packages by environment.
_LISTED = "pip.listed"
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?\Z")
_MISSING = re.compile(r"No module named '?pip\b")
#: Maximum number of environments whose packages are remembered.
_REMEMBERED = 256


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment as seen by one user."""

    #: The start of pip's command line.
    pip: Tuple[str, ...]
    where: Where


@dataclass(frozen=True)
class Installed:
    """One installed package."""

    name: str
    version: str
    #: Source folder of an editable installation; "" for others.
    editable: str = ""
    #: Folder that contains the package; "" if pip is too old to report it.
    location: str = ""


@dataclass(frozen=True)
class _Listing:
    """Installed packages by normalized name, and the state of the folders that contain them."""

    packages: Mapping[str, Installed]
    folders: Mapping[str, int]


def environment(
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    env_vars: Any = None,
) -> PythonEnvironment:
    """Return the environment that the arguments of pip.* name.

    Args:
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        user: runs pip; default: the user of this process.
        cwd: working folder; default: *bin_env* if it is a folder, otherwise the user's home.
        env_vars: more environment variables.

    Raises:
        CommandExecutionError: *bin_env* has no Python or pip.
        UsageError: *env_vars* is no mapping.
    """
    try:
        env = {str(key): str(value) for key, value in mapped(env_vars).items()}
    except UsageError as problem:
        raise UsageError(f"env_vars: {problem}") from problem
    # pip asks no questions, and does not look for a newer pip in the network.
    env.setdefault("PIP_NO_INPUT", "1")
    env.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    if not bin_env:
        python = programs.find("python3", "python3")
        return PythonEnvironment((python, "-m", "pip"), Where(user, cwd, env))
    path = os.path.normpath(str(bin_env))
    if os.path.isdir(path):  # noqa: PTH112
        env.setdefault("VIRTUAL_ENV", path)
        return PythonEnvironment((_python_in(path), "-m", "pip"), Where(user, cwd or path, env))
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):  # noqa: PTH113
        raise CommandExecutionError(
            f"bin_env {path!r} is neither a virtual environment nor an executable python or pip"
        )
    is_python = "python" in Path(path).name
    return PythonEnvironment((path, "-m", "pip") if is_python else (path,), Where(user, cwd, env))


def _python_in(folder: str) -> str:
    """Return the Python of a virtual environment.

    Raises:
        CommandExecutionError: it has none.
    """
    for base in (Path(folder, "bin"), Path(folder)):
        names = sorted(one.name for one in base.glob("python*") if _PYTHON.match(one.name))
        for name in names:
            if os.access(base / name, os.X_OK) and (base / name).is_file():
                return str(base / name)
    raise CommandExecutionError(f"Could not find a pip binary in virtualenv {folder}")


def query(context: Context, made: PythonEnvironment, *words: str) -> Ran:
    """Run a read-only command of pip.

    Raises:
        CommandExecutionError: it failed, or pip is missing.
    """
    return _checked(made, tools.ask(context, [*made.pip, *words], made.where))


def ask(context: Context, made: PythonEnvironment, words: Sequence[str]) -> Ran:
    """Run a read-only command of pip, whose failure is no error.

    Raises:
        CommandExecutionError: pip is missing.
    """
    ran = tools.ask(context, [*made.pip, *words], made.where)
    if ran.retcode and _MISSING.search(ran.stderr):
        _checked(made, ran)
    return ran


def change(context: Context, made: PythonEnvironment, words: Sequence[str]) -> Ran:
    """Run a command of pip that changes the environment; its failure is no error.

    Raises:
        CommandExecutionError: pip is missing or did not end in time.
    """
    ran = tools.act(context, [*made.pip, *words], made.where)
    if ran.retcode and _MISSING.search(ran.stderr):
        _checked(made, ran)
    return ran


def _checked(made: PythonEnvironment, ran: Ran) -> Ran:
    if ran.retcode and _MISSING.search(ran.stderr):
        raise CommandExecutionError(
            f"pip is not available for {made.pip[0]}: install the package python3-pip, or for a "
            "virtual environment run its python with '-m ensurepip'"
        )
    return tools.checked(ran, "pip")


def installed(
    context: Context, made: PythonEnvironment, *, fresh: bool = False
) -> Dict[str, Installed]:
    """Return the packages of an environment by normalized name.

    pip is run once per environment and user in a run. It is run again if a folder that contains
    packages has changed since, because every installation and removal changes it.

    Args:
        context: the host.
        made: the environment.
        fresh: run pip in any case.

    Raises:
        CommandExecutionError: pip is missing or failed.
    """
    known: Dict[Any, _Listing] = context.scratch.setdefault(_LISTED, {})
    key = (made.pip, made.where.user, tuple(sorted(made.where.env.items())))
    found = known.get(key)
    if found is None or fresh or not found.folders or found.folders != _states(found.folders):
        found = _ask(context, made)
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = found
    return dict(found.packages)


def forget(context: Context) -> None:
    """Forget what is installed, because pip is about to change it."""
    context.scratch.pop(_LISTED, None)


def _states(folders: Any) -> Dict[str, int]:
    """Return the time of change of each folder in ns; -1 if it does not exist."""
    found = {}
    for folder in folders:
        try:
            found[folder] = Path(folder).stat().st_mtime_ns
        except OSError:
            found[folder] = -1
    return found


def _ask(context: Context, made: PythonEnvironment) -> _Listing:
    # The cwd of a state is no part of an environment: `python -m pip` would find packages there.
    apart = replace(made, where=replace(made.where, cwd=None))
    ran = query(context, apart, "list", "--format=json", "-v")
    packages = {one.name: one for one in parse_list(ran.stdout)}
    folders = {one.location for one in packages.values()}
    return _Listing(packages, {} if "" in folders else _states(folders))


def parse_list(text: str) -> List[Installed]:
    """Return the packages that `pip list --format=json` printed.

    Raises:
        CommandExecutionError: it is no such list.
    """
    try:
        # A line before the list may be a warning.
        rows = json.loads(text[text.index("[") :])
        return [
            Installed(
                normalized(str(row["name"])),
                str(row["version"]),
                str(row.get("editable_project_location") or ""),
                str(row.get("location") or ""),
            )
            for row in rows
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise CommandExecutionError(
            f"'pip list --format=json' printed no list of packages (pip 9 or newer is needed): "
            f"{text[:200]!r}"
        ) from problem
