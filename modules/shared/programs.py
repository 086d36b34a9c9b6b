"""Run the system's own programs: found on a fixed path, with a deadline and English output."""

from __future__ import annotations

import shutil
from typing import List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran, run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Seconds after which a program is ended.
DEADLINE = 60
#: Maximum characters of a program's output in an error.
_TOLD = 2000


def find(name: str, package: str) -> str:
    """Return the path of a program.

    Raises:
        CommandExecutionError: it is not installed; the message names the package.
    """
    found = shutil.which(name, path=PATH)
    if found is None:
        raise CommandExecutionError(
            f"{name} is not available on this host: install the package {package}"
        )
    return found


def look(
    context: Context,
    words: List[str],
    package: str,
    *,
    stdin: Optional[str] = None,
    timeout: float = DEADLINE,
    env: Optional[Mapping[str, str]] = None,
    runas: Optional[str] = None,
) -> Ran:
    """Run a program and return its result; a failing one is no error.

    Args:
        context: the host.
        words: the program's name and its arguments, which hold no secret.
        package: the package that has the program.
        stdin: text for the program, may be secret.
        timeout: seconds.
        env: more environment variables, may be secret.
        runas: name of the user that runs the program; None: this process' user.

    Raises:
        CommandExecutionError: it is not installed, or did not end in time.
    """
    options = RunOptions(
        python_shell=False,
        stdin=stdin,
        timeout=timeout,
        cwd="/",
        env={"LC_ALL": "C", **(env or {})},
        runas=runas,
    )
    ran = run(context, [find(words[0], package), *words[1:]], options)
    if ran.timed_out:
        raise CommandExecutionError(f"{words[0]} did not end within {timeout:g} seconds")
    return ran


def need(
    context: Context,
    words: List[str],
    package: str,
    *,
    stdin: Optional[str] = None,
    timeout: float = DEADLINE,
    env: Optional[Mapping[str, str]] = None,
    runas: Optional[str] = None,
) -> str:
    """Run a program as `look` does and return its standard output.

    Raises:
        CommandExecutionError: it is not installed, did not end in time, or failed.
    """
    ran = look(context, words, package, stdin=stdin, timeout=timeout, env=env, runas=runas)
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip()[-_TOLD:]
        raise CommandExecutionError(
            f"{words[0]} failed with return code {ran.retcode}: {told or 'it printed nothing'}"
        )
    return ran.stdout
