"""supervisord.*: processes that Supervisor keeps running."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared import programs, tools
from catena.modules.shared.command.run import Ran
from catena.modules.shared.tools import Where

_NAME = re.compile(r"[^\s-][^\s]*\Z")
_CONFIGURATIONS = ("/etc/supervisor/supervisord.conf", "/etc/supervisord.conf")
#: Seconds after which a command is ended: Supervisor waits for `startsecs` and `stopwaitsecs`.
_SECONDS = 600.0
#: Words of supervisorctl when no Supervisor answers.
_AWAY = re.compile(r"refused connection|no such file|SHUTDOWN_STATE|Is supervisord running", re.I)


@dataclass(frozen=True)
class SupervisorPlace:
    """A running Supervisor and the user who asks it."""

    user: Optional[str] = None
    conf_file: Optional[str] = None
    #: Path of supervisorctl, or a virtual environment that has it.
    bin_env: Optional[str] = None


def _program(bin_env: Optional[str]) -> str:
    """Return the path of supervisorctl.

    Raises:
        CommandExecutionError: it is not installed.
    """
    if not bin_env:
        return programs.find("supervisorctl", "supervisor")
    path = Path(str(bin_env))
    path = path / "bin" / "supervisorctl" if path.is_dir() else path
    if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
        return str(path)
    raise CommandExecutionError(f"bin_env: there is no program {path}")


def checked_process(name: Any) -> str:
    """Return the name of a process (web), of one in a group (app:web) or of a group (app:).

    Raises:
        UsageError: it is none.
    """
    text = str(name)
    if not _NAME.match(text):
        raise UsageError(f"{text[:80]!r} is no name of a process or a group of Supervisor")
    return text[:-1] if text.endswith(":*") else text


def group_of(name: Any) -> str:
    """Return the name of a program or group without a colon at its end."""
    return checked_process(name).rstrip(":")


def _ask(context: Context, one: SupervisorPlace, words: List[str], *, reads: bool = False) -> Ran:
    command = [_program(one.bin_env)]
    if one.conf_file:
        command.append(f"--configuration={one.conf_file}")
    run = tools.ask if reads else tools.act
    return run(context, [*command, *words], Where(one.user), _SECONDS)


def _told(ran: Ran) -> str:
    """Return what supervisorctl printed; a failure contains the word ERROR."""
    text = ran.stdout or ran.stderr
    return f"ERROR: {text}" if ran.retcode and "ERROR" not in text else text


def _act(context: Context, one: SupervisorPlace, *words: str) -> str:
    return _told(_ask(context, one, [*words]))


@function()
def start(
    context: Context,
    /,
    name: str = "all",
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Start processes; return what Supervisor says.

    Args:
        context: the host.
        name: of a process, of a group ("app:"), or "all".
        user: who asks.
        conf_file: configuration of supervisorctl.
        bin_env: path of supervisorctl, or a virtual environment that has it.
    """
    one = SupervisorPlace(user, conf_file, bin_env)
    return _act(context, one, "start", _with_star(name))


def _with_star(name: Any) -> str:
    """Return a name as supervisorctl takes it: it names a group "app:*"."""
    text = checked_process(name)
    return f"{text}*" if text.endswith(":") else text


@function()
def restart(
    context: Context,
    /,
    name: str = "all",
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Restart processes; arguments as of supervisord.start."""
    one = SupervisorPlace(user, conf_file, bin_env)
    return _act(context, one, "restart", _with_star(name))


@function()
def stop(
    context: Context,
    /,
    name: str = "all",
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Stop processes; arguments as of supervisord.start."""
    one = SupervisorPlace(user, conf_file, bin_env)
    return _act(context, one, "stop", _with_star(name))


@function()
def add(
    context: Context,
    /,
    name: str,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Activate a program or group of the configuration; return what Supervisor says."""
    return _act(context, SupervisorPlace(user, conf_file, bin_env), "add", group_of(name))


@function()
def remove(
    context: Context,
    /,
    name: str,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Remove a stopped program or group from the running Supervisor."""
    return _act(context, SupervisorPlace(user, conf_file, bin_env), "remove", group_of(name))


@function(reads=True)
def reread(
    context: Context,
    /,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Let Supervisor read its configuration, without any effect on processes."""
    return _told(_ask(context, SupervisorPlace(user, conf_file, bin_env), ["reread"], reads=True))


@function()
def update(
    context: Context,
    /,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
    name: Optional[str] = None,
) -> str:
    """Read the configuration and restart what it changes, everything or one group."""
    names = [group_of(name)] if name else []
    return _act(context, SupervisorPlace(user, conf_file, bin_env), "update", *names)


@function(reads=True)
def status(
    context: Context,
    /,
    name: Optional[str] = None,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> Dict[str, Dict[str, str]]:
    """Return the processes: {name: {"state": RUNNING, "reason": "pid 12, uptime 0:01:00"}}.

    Args:
        context: the host.
        name: only this process or group.
        user: who asks.
        conf_file: configuration of supervisorctl.
        bin_env: path of supervisorctl, or a virtual environment that has it.

    Raises:
        CommandExecutionError: supervisorctl is missing, or no Supervisor answers.
    """
    text = status_raw(context, name, user, conf_file, bin_env)
    if _AWAY.search(text):
        raise CommandExecutionError(f"Supervisor does not answer: {text.strip()[-500:]}")
    return parse_status(text)


def parse_status(text: str) -> Dict[str, Dict[str, str]]:
    """Return what `supervisorctl status` printed, by process."""
    found = {}
    for line in text.splitlines():
        parts = line.split(None, 2)
        # A message of an error has no state in capitals.
        if len(parts) >= 2 and parts[1] != "ERROR" and re.fullmatch(r"[A-Z]+", parts[1]):
            found[parts[0]] = {"state": parts[1], "reason": parts[2] if len(parts) > 2 else ""}
    return found


@function(reads=True)
def status_raw(
    context: Context,
    /,
    name: Optional[str] = None,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Return what `supervisorctl status` prints."""
    words = ["status", *([_with_star(name)] if name else [])]
    ran = _ask(context, SupervisorPlace(user, conf_file, bin_env), words, reads=True)
    # It fails if one process does not run, which is an answer too.
    return ran.stdout or ran.stderr


@function(reads=True)
def status_bool(
    context: Context,
    /,
    name: str,
    expected_state: Optional[str] = None,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> bool:
    """Return whether a process exists, or is in a state (RUNNING, STOPPED, …)."""
    found = status(context, name, user, conf_file, bin_env).get(str(name))
    return found is not None and expected_state in (None, found["state"])


@function()
def custom(
    context: Context,
    /,
    command: str,
    user: Optional[str] = None,
    conf_file: Optional[str] = None,
    bin_env: Optional[str] = None,
) -> str:
    """Run any command of supervisorctl; return what it prints."""
    words = str(command).split()
    if not words or words[0].startswith("-"):
        raise UsageError(f"{str(command)[:80]!r} is no command of supervisorctl")
    return _act(context, SupervisorPlace(user, conf_file, bin_env), *words)


@function(reads=True)
def options(context: Context, name: str, conf_file: Optional[str] = None) -> Dict[str, Any]:
    """Return the settings of a program in Supervisor's configuration.

    Args:
        context: the host.
        name: of the program.
        conf_file: default: /etc/supervisor/supervisord.conf or /etc/supervisord.conf.

    Raises:
        CommandExecutionError: there is no configuration, or no such program in it.
    """
    from configparser import Error, RawConfigParser

    found = conf_file or next((one for one in _CONFIGURATIONS if Path(one).exists()), None)
    if found is None:
        raise CommandExecutionError("No suitable config file found")
    config = RawConfigParser(inline_comment_prefixes=(";",))
    try:
        config.read_string(Path(found).read_text(encoding="utf-8", errors="replace"), found)
    except (OSError, Error) as problem:
        raise CommandExecutionError(f"Unable to read from {found}: {problem}") from problem
    section = f"program:{name}"
    if not config.has_section(section):
        raise CommandExecutionError(f"Process '{name}' not found")
    return {key: _value(text) for key, text in config.items(section)}


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
