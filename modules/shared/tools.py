"""Run package managers of languages: as a user, in a folder, with an environment of their own."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from catena.core.addresses import has_credentials, hide_credentials
from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field, replace
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran, run

#: Seconds after which a query of what is installed is ended.
QUERY_SECONDS = 300.0
#: Seconds after which a download, build or installation is ended.
WORK_SECONDS = 7200.0
#: English messages; these programs refuse texts that are not ASCII in the locale C.
_LOCALE = {"LC_ALL": "C.UTF-8"}
#: Maximum characters of a program's output in an error.
_TOLD = 2000


@dataclass(frozen=True)
class Where:
    """The user, folder and environment of a program."""

    user: Optional[str] = None
    #: None: the user's home.
    cwd: Optional[str] = None
    env: Mapping[str, str] = field(default_factory=dict)


def act(
    context: Context, words: Sequence[str], where: Where, timeout: float = WORK_SECONDS
) -> Ran:
    """Run a program and return its result without credentials; a failing one is no error.

    Args:
        context: the host.
        words: the program's path and its arguments, which hold no secret.
        where: user, folder and environment; the environment may hold secrets.
        timeout: seconds.

    Raises:
        CommandExecutionError: it could not be started, or did not end in time.
        UsageError: an argument makes no sense.
    """
    options = RunOptions(
        python_shell=False,
        runas=where.user,
        cwd=where.cwd,
        env={**_LOCALE, **where.env},
        timeout=timeout,
    )
    ran = run(context, list(words), options)
    if ran.timed_out:
        raise CommandExecutionError(f"{words[0]} did not end within {timeout:g} seconds")
    shown = replace(ran, stdout=hide_credentials(ran.stdout), stderr=hide_credentials(ran.stderr))
    return shown


def ask(
    context: Context, words: Sequence[str], where: Where, timeout: float = QUERY_SECONDS
) -> Ran:
    """Run a program that changes nothing as `act` does; test mode allows it."""
    with only_looking():
        return act(context, words, where, timeout)


def checked(ran: Ran, what: str) -> Ran:
    """Return the result of a program that succeeded.

    Raises:
        CommandExecutionError: it failed; the message begins with *what* and has its own words.
    """
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip()[-_TOLD:]
        raise CommandExecutionError(
            f"{what} failed with return code {ran.retcode}: {told or 'it printed nothing'}"
        )
    return ran


def refuse_credentials(word: str, program: str, instead: str) -> None:
    """Refuse an argument that other users must not read.

    Args:
        word: the argument.
        program: name of the program, for the message.
        instead: where credentials are to be configured.

    Raises:
        UsageError: it is an address with credentials.
    """
    if has_credentials(word):
        raise UsageError(
            f"an address with credentials can't be an argument of {program}: set them in {instead}"
        )
