"""virtualenv.*: virtual environments of Python, by the program virtualenv or the module venv."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared import programs, tools
from catena.modules.shared.arguments import listed, take, truth
from catena.modules.shared.tools import Where

#: Name of the standard library's module, as `venv_bin`.
_VENV = "venv"
_PACKAGE = "virtualenv"
#: Prints where packages of an environment are installed.
_SITE = 'import sysconfig; print(sysconfig.get_path("purelib"))'


@dataclass(frozen=True)
class VirtualenvOptions:
    """Options of virtualenv.create, with Salt's names and defaults."""

    venv_bin: Optional[str] = None
    system_site_packages: bool = False
    clear: bool = False
    python: Optional[str] = None
    extra_search_dir: Any = None
    never_download: Optional[bool] = None
    prompt: Optional[str] = None
    symlinks: Optional[bool] = None
    upgrade: Optional[bool] = None
    #: Without effect: every supported Python installs pip into a new environment.
    pip: bool = False
    distribute: bool = False
    use_vt: bool = False
    saltenv: Optional[str] = None


@function()
def create(
    context: Context, /, path: str, user: Optional[str] = None, **options: Any
) -> Dict[str, Any]:
    """Create a virtual environment; return {pid, retcode, stdout, stderr}.

    Args:
        context: the host.
        path: folder of the environment.
        user: its owner; default: the user of this process.
        options: venv_bin (path of virtualenv, or "venv" for the standard library's module;
            default: the setting or pillar venv_bin, then virtualenv if it is installed), python,
            system_site_packages, clear, prompt, extra_search_dir, never_download, symlinks,
            upgrade.

    Raises:
        CommandExecutionError: a program is missing, or did not end in time.
        UsageError: an option makes no sense, or *venv_bin* does not have it.
    """
    given = take(VirtualenvOptions, options, "virtualenv.create")
    folder = str(path)
    if not folder.startswith("/"):
        raise UsageError(f"{folder[:100]!r} is no absolute path of a virtual environment")
    words = [*_words(context, given), folder]
    return tools.act(context, words, Where(user, "/")).as_dict()


def _words(context: Context, given: VirtualenvOptions) -> List[str]:
    """Return the command without the folder."""
    name = str(
        given.venv_bin or context.pillar.get("venv_bin") or context.opts.get("venv_bin") or ""
    )
    if not name:
        name = _PACKAGE if shutil.which(_PACKAGE, path=programs.PATH) else _VENV
    with_venv = name == _VENV or Path(name).name.startswith("pyvenv")
    words = _of_venv(name, given) if with_venv else _of_virtualenv(name, given)
    for asked, option in (
        (given.clear, "--clear"),
        (given.system_site_packages, "--system-site-packages"),
    ):
        words += [option] if truth(asked) else []
    return words + ([f"--prompt={given.prompt}"] if given.prompt else [])


def _of_venv(name: str, given: VirtualenvOptions) -> List[str]:
    if given.extra_search_dir or given.never_download is not None:
        option = "extra_search_dir" if given.extra_search_dir else "never_download"
        raise UsageError(f"The `{option}` option is not supported by '{name}'")
    words = [_program(name, _PACKAGE)] if name != _VENV else [_python(given.python), "-m", _VENV]
    words += ["--upgrade"] if truth(given.upgrade) else []
    return words + (["--symlinks"] if truth(given.symlinks) else [])


def _of_virtualenv(name: str, given: VirtualenvOptions) -> List[str]:
    for option in ("upgrade", "symlinks"):
        if getattr(given, option) is not None:
            raise UsageError(f"The `{option}`(`--{option}`) option is not supported by '{name}'")
    words = [_program(name, _PACKAGE)]
    if given.python:
        words.append(f"--python={_python(given.python)}")
    words += [f"--extra-search-dir={one}" for one in listed(given.extra_search_dir)]
    return words + (["--no-download"] if truth(given.never_download) else [])


def _python(name: Optional[str]) -> str:
    """Return the path of a Python.

    Raises:
        CommandExecutionError: there is none of this name.
    """
    asked = str(name or "python3").strip()
    if "/" in asked:
        if os.path.isfile(asked) and os.access(asked, os.X_OK):  # noqa: PTH113
            return asked
        raise CommandExecutionError(f"Cannot find requested python ({asked}).")
    try:
        return programs.find(asked, asked)
    except CommandExecutionError as problem:
        raise CommandExecutionError(f"Cannot find requested python ({asked}): {problem}") from (
            problem
        )


def _program(name: str, package: str) -> str:
    if "/" not in name:
        return programs.find(name, package)
    if os.path.isfile(name) and os.access(name, os.X_OK):  # noqa: PTH113
        return name
    raise CommandExecutionError(
        f"{name} is not available on this host: install the package {package}"
    )


def python_of(path: Any) -> str:
    """Return the path of an environment's Python, whether it exists or not."""
    return str(Path(str(path), "bin", "python"))


@function(reads=True)
def virtualenv_ver(
    context: Context, /, venv_bin: str, user: Optional[str] = None, **kwargs: Any
) -> Tuple[int, ...]:
    """Return the version of the program virtualenv: (20, 17, 1)."""
    ran = tools.ask(context, [_program(str(venv_bin), _PACKAGE), "--version"], Where(user, "/"))
    found = re.search(r"(?<![\w.])(\d+(?:\.\d+)+)", tools.checked(ran, "virtualenv").stdout)
    if found is None:
        raise CommandExecutionError(f"{venv_bin} --version printed no version")
    return tuple(int(part) for part in found[1].split("."))


@function(reads=True)
def get_site_packages(context: Context, venv: str) -> str:
    """Return the folder of an environment into which packages are installed.

    Raises:
        CommandExecutionError: *venv* is no virtual environment.
    """
    python = python_of(venv)
    if not os.path.exists(python):  # noqa: PTH110
        raise CommandExecutionError(
            f"Path '{venv}' does not appear to be a virtualenv: '{python}' not found."
        )
    ran = tools.ask(context, [python, "-c", _SITE], Where(None, "/"))
    return tools.checked(ran, "python").stdout
