"""Turn the arguments of cmd.* into a `Command`."""

from __future__ import annotations

import os
import pwd
import shlex
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.shared.arguments import listed, mapped, truth
from catena.modules.shared.command.process import (
    OUTPUT_LIMIT,
    Command,
    Identity,
    argv_of,
)

Words = Union[str, Sequence[Any]]

#: Environment for English output, which is parsed, regardless of the agent's locale.
_LOCALE = {
    name: "C"
    for name in (
        "LC_CTYPE",
        "LC_NUMERIC",
        "LC_TIME",
        "LC_COLLATE",
        "LC_MONETARY",
        "LC_MESSAGES",
        "LC_PAPER",
        "LC_NAME",
        "LC_ADDRESS",
        "LC_TELEPHONE",
        "LC_MEASUREMENT",
        "LC_IDENTIFICATION",
        "LANGUAGE",
    )
}
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_SHELL = "/bin/sh"


@dataclass(frozen=True)
class RunOptions:
    """Keyword arguments of cmd.*, with Salt's names and defaults."""

    cwd: Optional[str] = None
    stdin: Any = None
    runas: Optional[str] = None
    group: Optional[str] = None
    shell: Optional[str] = None
    #: None: True if the call came from a command line, else False.
    python_shell: Optional[bool] = None
    env: Any = None
    clean_env: bool = False
    prepend_path: Optional[str] = None
    template: Optional[str] = None
    rstrip: bool = True
    umask: Any = None
    #: How loudly Salt logs the output; nothing of it is logged here.
    output_encoding: Optional[str] = None
    output_loglevel: Optional[str] = None
    log_callback: Any = None
    hide_output: bool = False
    timeout: Any = None
    reset_system_locale: bool = True
    ignore_retcode: bool = False
    saltenv: Optional[str] = None
    use_vt: bool = False
    redirect_stderr: Optional[bool] = None
    bg: bool = False
    raise_err: bool = False
    password: Optional[str] = None
    runas_password: Optional[str] = None
    encoded_cmd: bool = False
    success_retcodes: Any = None
    success_stdout: Any = None
    success_stderr: Any = None
    output_limit: Optional[int] = None
    #: Values for `template`.
    context: Any = None
    defaults: Any = None
    pillarenv: Optional[str] = None
    pillar: Any = None
    pillar_override: Any = None
    windows_codepage: Optional[int] = None


def find_identity(name: str, group: Optional[str] = None) -> Optional[Identity]:
    """Return user *name* with all its groups, or None if this process already runs as that user.

    Raises:
        CommandExecutionError: no such user or group, or this process may not change to it.
    """
    import grp

    try:
        entry = pwd.getpwuid(int(name)) if str(name).isdigit() else pwd.getpwnam(str(name))
    except (KeyError, ValueError, OverflowError):
        raise CommandExecutionError(f"User '{name}' is not available") from None
    gid = entry.pw_gid
    if group:
        try:
            gid = grp.getgrnam(str(group)).gr_gid
        except (KeyError, ValueError):
            raise CommandExecutionError(f"Group '{group}' is not available") from None
    if os.geteuid() != 0:
        if entry.pw_uid == os.geteuid() and gid == os.getegid():
            return None
        raise CommandExecutionError(f"Only root may run a command as '{name}'")
    groups = tuple(os.getgrouplist(entry.pw_name, gid))
    shell = entry.pw_shell or DEFAULT_SHELL
    return Identity(entry.pw_name, entry.pw_uid, gid, groups, entry.pw_dir, shell)


def _texts(values: Mapping[str, Any]) -> Dict[str, str]:
    found = {}
    for key, value in values.items():
        name, text = str(key), "" if value is None else str(value)
        if not name or "=" in name or "\0" in name + text:
            raise UsageError(f"{name!r} cannot be an environment variable")
        found[name] = text
    return found


def _given(env: Any) -> Dict[str, str]:
    try:
        values = mapped(env)
    except UsageError as problem:
        raise UsageError(f"Invalidly-formatted 'env' parameter: {problem}") from problem
    return _texts(values)


def environment(options: RunOptions, identity: Optional[Identity]) -> Dict[str, str]:
    """Return the environment of a command: ours or a user's, the locale, then what was asked."""
    env: Dict[str, str] = {} if truth(options.clean_env) else dict(os.environ)
    if identity is not None:
        for name in (
            "SUDO_USER",
            "SUDO_UID",
            "SUDO_GID",
            "SUDO_COMMAND",
            "MAIL",
            "XDG_RUNTIME_DIR",
        ):
            env.pop(name, None)
        env.update(
            HOME=identity.home, USER=identity.name, LOGNAME=identity.name, SHELL=identity.shell
        )
    if truth(options.reset_system_locale):
        env.update(_LOCALE)
    env.update(_given(options.env))
    env.setdefault("PATH", DEFAULT_PATH)
    if options.prepend_path:
        env["PATH"] = f"{options.prepend_path}:{env['PATH']}"
    return env


def working_folder(options: RunOptions, identity: Optional[Identity]) -> str:
    """Return the working folder of a command: the given one, else the user's home, else "/".

    Raises:
        CommandExecutionError: the folder that was asked for is relative or not there.
    """
    if options.cwd:
        cwd = str(options.cwd)
        if not cwd.startswith("/") or not os.path.isdir(cwd):  # noqa: PTH112
            raise CommandExecutionError(
                f"Specified cwd '{cwd}' either not absolute or does not exist"
            )
        return cwd
    home = identity.home if identity else os.path.expanduser("~")  # noqa: PTH111  # "~" may stay
    return home if home.startswith("/") and os.access(home, os.X_OK | os.R_OK) else "/"


def parse_umask(value: Any) -> Optional[int]:
    """Return an octal umask ("022", "077") as a number; None stays None.

    Raises:
        UsageError: it is not octal or has more than permission bits.
    """
    if value is None or value == "":
        return None
    try:
        mask = int(str(value), 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= 0o777:
        raise UsageError(f"Invalid umask: '{value}'")
    return mask


def parse_timeout(value: Any) -> Optional[float]:
    """Return a positive number of seconds; None and 0 mean no limit.

    Raises:
        UsageError: it is no number, or negative.
    """
    if value is None or value == "" or value == 0:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if seconds < 0 or seconds != seconds:
        raise UsageError(f"timeout: {value!r} is not a number of seconds")
    return seconds


def words_of(cmd: Words, shell: Optional[str]) -> Tuple[str, ...]:
    """Return the argument vector of *cmd*.

    Args:
        cmd: a string, or a list of arguments.
        shell: path of the shell for a string; None: no shell; the string is split like in a shell,
            without expansions.

    Raises:
        CommandExecutionError: no command, or unbalanced quotes.
    """
    if isinstance(cmd, (bool, int, float)) or cmd is None:
        # Arguments on a command line are YAML, so `yes` and `5` are no strings.
        raise UsageError(f"cmd: {cmd!r} is no command; quote it twice: \"'yes'\"")
    if not isinstance(cmd, str):
        words: List[str] = [str(word) for word in cmd]
        return argv_of([shell, "-c", shlex.join(words)] if shell else words)
    if shell:
        return argv_of([shell, "-c", cmd] if cmd.strip() else [])
    try:
        return argv_of(shlex.split(cmd))
    except ValueError as problem:
        raise CommandExecutionError(f"The command can't be split: {problem}") from problem


def default_shell(context: Context) -> str:
    """Return the shell of this host's grains, or /bin/sh."""
    shell = context.grains.get("shell") or os.environ.get("SHELL") or DEFAULT_SHELL
    return str(shell) if str(shell).startswith("/") else DEFAULT_SHELL


def checked_shell(shell: str) -> str:
    """Return *shell*.

    Raises:
        CommandExecutionError: it is not an executable file.
    """
    if not (os.path.isfile(shell) and os.access(shell, os.X_OK)):  # noqa: PTH113
        raise CommandExecutionError(f"The shell {shell} is not available")
    return shell


def from_command_line(context: Context) -> bool:
    """Return whether the running job is itself a cmd.* call, as a person types it."""
    return context.job is not None and context.job.fun.startswith("cmd.")


def build(context: Context, cmd: Words, options: RunOptions) -> Command:
    """Return *cmd* as a `Command`.

    Raises:
        CommandExecutionError: the user, shell, folder or command is not there.
        UsageError: an argument makes no sense.
    """
    runas = options.runas or (pwd.getpwuid(os.geteuid()).pw_name if options.group else None)
    identity = find_identity(runas, options.group) if runas else None
    with_shell = options.python_shell
    if with_shell is None:
        with_shell = from_command_line(context)
    shell = checked_shell(options.shell or default_shell(context)) if truth(with_shell) else None
    stdin = options.stdin
    return Command(
        argv=words_of(cmd, shell),
        cwd=working_folder(options, identity),
        env=environment(options, identity),
        stdin=stdin if isinstance(stdin, bytes) or stdin is None else str(stdin).encode(),
        identity=identity,
        umask=parse_umask(options.umask),
        timeout=parse_timeout(options.timeout),
        output_limit=options.output_limit or OUTPUT_LIMIT,
        merge_stderr=truth(options.redirect_stderr),
        background=truth(options.bg),
    )


def success_codes(options: RunOptions) -> List[int]:
    """Return `success_retcodes` as numbers.

    Raises:
        UsageError: one of them is no number.
    """
    try:
        return [int(code) for code in listed(options.success_retcodes)]
    except (TypeError, ValueError):
        raise UsageError("success_retcodes must be a list of numbers") from None
