"""rabbitmq.*: users, virtual hosts, policies and plugins of a RabbitMQ node, by rabbitmqctl.

The programs in /usr/lib/rabbitmq/bin are called instead of those in /usr/sbin: distributions wrap
these in `su -c`, whose shell would run a name like `$(reboot)`. Passwords go to standard input.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran, run

_FOLDER = Path("/usr/lib/rabbitmq/bin")
_PACKAGE = "rabbitmq-server"
_USER = "rabbitmq"
#: Seconds; each call starts a virtual machine of Erlang.
_DEADLINE = 120
_ANSWERS = "rabbitmq.answers"
_NAME_LIMIT = 255
_TOLD = 1000
#: Exit code of authenticate_user for a wrong password (EX_DATAERR).
_WRONG = 65
_DOWN = ("unable to perform an operation on node", "app to be running", "nodedown")
_PERMISSIONS = ("configure", "write", "read")


class NoNodeError(CommandExecutionError):
    """The node does not answer, or RabbitMQ is not installed: another state may have to run."""


def checked(value: Any, what: str = "name") -> str:
    """Return a name as text.

    Raises:
        UsageError: it is empty, too long, or has a NUL character.
    """
    text = str(value)
    if not text or len(text) > _NAME_LIMIT or "\0" in text:
        raise UsageError(f"{what}: {text[:40]!r} must have 1 to {_NAME_LIMIT} characters")
    return text


def _identity(runas: Optional[str], path: str) -> Optional[str]:
    """Return the system user of a call; root may not read the node's cookie."""
    if runas not in (None, "", "root") or os.geteuid() != 0 or not path.startswith(str(_FOLDER)):
        return runas or None
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError:
        return None


def _look(
    context: Context,
    words: Sequence[str],
    runas: Optional[str],
    stdin: Optional[str] = None,
) -> Ran:
    """Run a program of RabbitMQ.

    Raises:
        NoNodeError: the node does not answer, or RabbitMQ is not installed.
        CommandExecutionError: the program did not end in time.
    """
    program = _FOLDER / words[0]
    if program.is_file():
        path = str(program)
    else:
        try:
            path = programs.find(words[0], _PACKAGE)
        except CommandExecutionError as problem:
            raise NoNodeError(str(problem)) from None
    options = RunOptions(
        python_shell=False,
        stdin=stdin or "",
        runas=_identity(runas, path),
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
        timeout=_DEADLINE,
    )
    ran = run(context, [path, *words[1:]], options)
    if ran.timed_out:
        raise CommandExecutionError(f"{words[0]} did not end within {_DEADLINE} seconds")
    if ran.retcode and any(sign in ran.stderr + ran.stdout for sign in _DOWN):
        raise NoNodeError(
            f"RabbitMQ does not answer: {_told(ran)}. Start the node first; if it takes long to "
            "start, add `retry: {attempts: 5, interval: 10}` to the state"
        )
    return ran


def _told(ran: Ran) -> str:
    """Return the sentence of an error, without the usage that follows it."""
    text = (ran.stderr or ran.stdout).partition("Arguments given:")[0].strip()
    text = " ".join(text.partition("\n\n")[0].split()) or "it printed nothing"
    return text.replace("Error: ", "", 1).rstrip(".")[:_TOLD]


def _need(
    context: Context,
    words: Sequence[str],
    runas: Optional[str],
    stdin: Optional[str] = None,
) -> str:
    ran = _look(context, words, runas, stdin)
    if ran.retcode:
        raise CommandExecutionError(f"{words[0]} {words[2]} failed: {_told(ran)}")
    return ran.stdout


def _change(
    context: Context,
    command: str,
    options: Sequence[str],
    names: Sequence[str],
    runas: Optional[str],
    stdin: Optional[str] = None,
) -> None:
    """Run a command of rabbitmqctl that changes something; names after `--` are no options."""
    if _ANSWERS in context.scratch:
        context.scratch[_ANSWERS] = {}
    _need(context, ["rabbitmqctl", "-q", command, *options, "--", *names], runas, stdin)


def _rows(context: Context, words: Sequence[str], runas: Optional[str]) -> Any:
    """Return the JSON of a listing.

    Raises:
        CommandExecutionError: the program fails, or prints no JSON.
    """
    known: Optional[Dict[Tuple[Any, ...], str]] = context.scratch.get(_ANSWERS)
    key = (runas, *words)
    if known is not None and key in known:
        return json.loads(known[key])
    text = _need(context, words, runas)
    try:
        found = json.loads(text)
    except ValueError:
        raise CommandExecutionError(
            f"{words[0]} {words[2]} printed no JSON: RabbitMQ 3.7.6 or later is needed"
        ) from None
    if known is not None:
        known[key] = text
    return found


@contextmanager
def remembering(context: Context, calls: Sequence[Any] = ()) -> Iterator[None]:
    """Ask each question once within the block, until something changes."""
    outer = context.scratch.get(_ANSWERS)
    context.scratch[_ANSWERS] = {}
    try:
        yield
    finally:
        if outer is None:
            context.scratch.pop(_ANSWERS, None)
        else:
            context.scratch[_ANSWERS] = {}


def _listing(command: str, *words: str) -> List[str]:
    return ["rabbitmqctl", "-q", command, "--formatter=json", *words]


@function(reads=True)
def list_users(context: Context, runas: Optional[str] = None) -> Dict[str, List[str]]:
    """Return the tags of each user.

    Args:
        context: the call's context.
        runas: system user that calls rabbitmqctl; default for root: "rabbitmq".
    """
    rows = _rows(context, _listing("list_users"), runas)
    return {row["user"]: list(row["tags"]) for row in rows}


@function(reads=True)
def list_vhosts(context: Context, runas: Optional[str] = None) -> List[str]:
    """Return the names of the virtual hosts; runas as of list_users."""
    return [row["name"] for row in _rows(context, _listing("list_vhosts", "name"), runas)]


@function(reads=True)
def user_exists(context: Context, name: str, runas: Optional[str] = None) -> bool:
    """Return whether a user exists; runas as of list_users."""
    return str(name) in list_users(context, runas)


@function(reads=True)
def vhost_exists(context: Context, name: str, runas: Optional[str] = None) -> bool:
    """Return whether a virtual host exists; runas as of list_users."""
    return str(name) in list_vhosts(context, runas)


def _line(password: Any) -> str:
    """Return a password as a line of standard input.

    Raises:
        UsageError: it is empty or has a line break.
    """
    text = str(password)
    if not text or "\n" in text or "\r" in text or "\0" in text:
        raise UsageError("a password must be one line that is not empty")
    return f"{text}\n"


@function()
def add_user(
    context: Context, name: str, password: Optional[str] = None, runas: Optional[str] = None
) -> Dict[str, str]:
    """Create a user; one without a password can't log in with one.

    Args:
        context: the call's context.
        name: of the user.
        password: of the user.
        runas: as of list_users.

    Raises:
        CommandExecutionError: the node does not answer, or refuses.
        UsageError: the name or the password can't be one.
    """
    line = _line(secrets.token_hex(32) if password is None else password)
    _change(context, "add_user", [], [checked(name)], runas, line)
    if password is None:
        clear_password(context, name, runas)
    return {"Added": f"Added user '{name}'"}


@function()
def delete_user(context: Context, name: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Remove a user; runas as of list_users."""
    _change(context, "delete_user", [], [checked(name)], runas)
    return {"Deleted": f"Deleted user '{name}'"}


@function()
def change_password(
    context: Context, name: str, password: str, runas: Optional[str] = None
) -> Dict[str, str]:
    """Set the password of a user; runas as of list_users."""
    _change(context, "change_password", [], [checked(name)], runas, _line(password))
    return {"Password Changed": f"Changed the password of '{name}'"}


@function()
def clear_password(context: Context, name: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Remove the password of a user, who then can't log in with one; runas as of list_users."""
    _change(context, "clear_password", [], [checked(name)], runas)
    return {"Password Cleared": f"Cleared the password of '{name}'"}


@function(reads=True)
def check_password(
    context: Context, name: str, password: str, runas: Optional[str] = None
) -> bool:
    """Return whether a user logs in with a password; runas as of list_users."""
    words = ["rabbitmqctl", "-q", "authenticate_user", "--", checked(name)]
    ran = _look(context, words, runas, _line(password))
    if ran.retcode not in (0, _WRONG):
        raise CommandExecutionError(f"rabbitmqctl authenticate_user failed: {_told(ran)}")
    return ran.retcode == 0


@function()
def add_vhost(context: Context, vhost: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Create a virtual host; runas as of list_users."""
    _change(context, "add_vhost", [], [checked(vhost)], runas)
    return {"Added": f"Added virtual host '{vhost}'"}


@function()
def delete_vhost(context: Context, vhost: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Remove a virtual host with its queues; runas as of list_users."""
    _change(context, "delete_vhost", [], [checked(vhost)], runas)
    return {"Deleted": f"Deleted virtual host '{vhost}'"}


@function()
def set_permissions(
    context: Context,
    vhost: str,
    user: str,
    conf: str = ".*",
    write: str = ".*",
    read: str = ".*",
    runas: Optional[str] = None,
) -> Dict[str, str]:
    """Set what a user may configure, write and read in a virtual host, as regular expressions."""
    names = [checked(user), str(conf), str(write), str(read)]
    _change(context, "set_permissions", [f"--vhost={checked(vhost, 'vhost')}"], names, runas)
    return {"Permissions Set": f"Set the permissions of '{user}' in '{vhost}'"}


@function(reads=True)
def list_permissions(
    context: Context, vhost: str, runas: Optional[str] = None
) -> Dict[str, Dict[str, str]]:
    """Return what each user may configure, write and read in a virtual host."""
    words = _listing("list_permissions", f"--vhost={checked(vhost, 'vhost')}")
    rows = _rows(context, words, runas)
    return {row["user"]: {key: row[key] for key in _PERMISSIONS} for row in rows}


@function(reads=True)
def list_user_permissions(
    context: Context, name: str, runas: Optional[str] = None
) -> Dict[str, Dict[str, str]]:
    """Return what a user may configure, write and read in each virtual host."""
    words = _listing("list_user_permissions", "--", checked(name))
    rows = _rows(context, words, runas)
    return {row["vhost"]: {key: row[key] for key in _PERMISSIONS} for row in rows}


@function()
def set_user_tags(
    context: Context, name: str, tags: Any, runas: Optional[str] = None
) -> Dict[str, str]:
    """Set the tags of a user, as a list or separated by blanks; runas as of list_users."""
    names = tags.split() if isinstance(tags, str) else [checked(one, "tags") for one in tags]
    _change(context, "set_user_tags", [], [checked(name), *names], runas)
    return {"Tag(s) set": f"Set the tags of '{name}'"}


@function(reads=True)
def list_policies(
    context: Context, vhost: str = "/", runas: Optional[str] = None
) -> Dict[str, Dict[str, Dict[str, Any]]]:
    """Return pattern, apply_to, definition (JSON) and priority of each policy, by virtual host."""
    words = _listing("list_policies", f"--vhost={checked(vhost, 'vhost')}")
    found: Dict[str, Dict[str, Dict[str, Any]]] = {}
    for row in _rows(context, words, runas):
        found.setdefault(row["vhost"], {})[row["name"]] = {
            "pattern": row["pattern"],
            "apply_to": row["apply-to"],
            "definition": row["definition"],
            "priority": row["priority"],
        }
    return found


@function(reads=True)
def policy_exists(context: Context, vhost: str, name: str, runas: Optional[str] = None) -> bool:
    """Return whether a virtual host has a policy; runas as of list_users."""
    return str(name) in list_policies(context, vhost, runas).get(str(vhost), {})


@function()
def set_policy(
    context: Context,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: Optional[int] = None,
    runas: Optional[str] = None,
    apply_to: Optional[str] = None,
) -> Dict[str, str]:
    """Create or change a policy.

    Args:
        context: the call's context.
        vhost: virtual host.
        name: of the policy.
        pattern: regular expression for names of queues and exchanges.
        definition: JSON, as {"max-length": 5}.
        priority: a number.
        runas: as of list_users.
        apply_to: queues, exchanges or all.

    Raises:
        CommandExecutionError: the node does not answer, or refuses.
        UsageError: the name can't be one.
    """
    options = [f"--vhost={checked(vhost, 'vhost')}"]
    if priority:
        options.append(f"--priority={int(priority)}")
    if apply_to:
        options.append(f"--apply-to={apply_to}")
    names = [checked(name), str(pattern), str(definition)]
    _change(context, "set_policy", options, names, runas)
    return {"Set": f"Set policy '{name}' of '{vhost}'"}


@function()
def delete_policy(
    context: Context, vhost: str, name: str, runas: Optional[str] = None
) -> Dict[str, str]:
    """Remove a policy of a virtual host; runas as of list_users."""
    options = [f"--vhost={checked(vhost, 'vhost')}"]
    _change(context, "clear_policy", options, [checked(name)], runas)
    return {"Deleted": f"Deleted policy '{name}' of '{vhost}'"}


def _plugins(context: Context, runas: Optional[str]) -> Dict[str, bool]:
    """Return whether each plugin is enabled by itself, and not only for another one."""
    words = ["rabbitmq-plugins", "-q", "list", "--formatter=json"]
    rows = _rows(context, words, runas)["plugins"]
    return {row["name"]: row["enabled"] == "enabled" for row in rows}


@function(reads=True)
def list_available_plugins(context: Context, runas: Optional[str] = None) -> List[str]:
    """Return the names of the plugins of this host; runas as of list_users."""
    return sorted(_plugins(context, runas))


@function(reads=True)
def list_enabled_plugins(context: Context, runas: Optional[str] = None) -> List[str]:
    """Return the names of the plugins that are enabled by themselves; runas as of list_users."""
    return sorted(name for name, enabled in _plugins(context, runas).items() if enabled)


@function(reads=True)
def plugin_is_enabled(context: Context, name: str, runas: Optional[str] = None) -> bool:
    """Return whether a plugin is enabled.

    Raises:
        CommandExecutionError: this host has no such plugin.
    """
    found = _plugins(context, runas)
    if str(name) not in found:
        raise CommandExecutionError(f"this host has no plugin '{name}' of RabbitMQ")
    return found[str(name)]


def _switch(context: Context, verb: str, name: str, runas: Optional[str]) -> None:
    if _ANSWERS in context.scratch:
        context.scratch[_ANSWERS] = {}
    _need(context, ["rabbitmq-plugins", "-q", verb, "--", checked(name)], runas)


@function()
def enable_plugin(context: Context, name: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Enable a plugin and those that it needs; runas as of list_users."""
    _switch(context, "enable", name, runas)
    return {"Enabled": f"Enabled plugin '{name}'"}


@function()
def disable_plugin(context: Context, name: str, runas: Optional[str] = None) -> Dict[str, str]:
    """Disable a plugin; runas as of list_users."""
    _switch(context, "disable", name, runas)
    return {"Disabled": f"Disabled plugin '{name}'"}
