"""ssh_known_hosts.*: the SSH servers that a user, or everybody on the host, knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import take
from catena.modules.ssh.known_hosts import HostOptions
from catena.states.answers import done, failed, would

_SYSTEM_CONFIG = "/etc/ssh/ssh_known_hosts"
_USER_CONFIG = ".ssh/known_hosts"
_NO_USER = 'If not specifying a "user", specify an absolute "config".'
_REFUSALS = (UsageError, CommandExecutionError)


def _config(user: Optional[str], config: Optional[str]) -> str:
    """Return the file's path as comments show it.

    Raises:
        UsageError: it is relative, and there is no user.
    """
    if user:
        return config or _USER_CONFIG
    if config and not Path(config).is_absolute():
        raise UsageError(_NO_USER)
    return config or _SYSTEM_CONFIG


@state()
def present(
    context: Context, /, name: str, user: Optional[str] = None, **arguments: Any
) -> StateResult:
    """Make sure that a key of an SSH server is known.

    Args:
        context: the call's context.
        name: the server, as in github.com.
        user: owner of the file; None: everybody on the host.
        arguments: fingerprint, or key and enc (its type); otherwise the server is asked. port,
            config (path), hash_known_hosts (True), timeout (5 seconds), fingerprint_hash_type.
    """
    try:
        given = take(HostOptions, arguments, "ssh_known_hosts.present")
        config = _config(user, given.config)
        if context.test:
            return _would(context, name, user, given, config)
        found = context.call(
            "ssh.set_known_host",
            user=user,
            hostname=name,
            fingerprint=given.fingerprint,
            key=given.key,
            port=given.port,
            enc=given.enc,
            config=config,
            hash_known_hosts=given.hash_known_hosts,
            timeout=given.timeout,
            fingerprint_hash_type=given.fingerprint_hash_type,
        )
    except _REFUSALS as problem:
        return failed(str(problem))
    return _result(found, name, config, bool(given.key))


def _would(
    context: Context, name: str, user: Optional[str], given: HostOptions, config: str
) -> StateResult:
    if given.key and given.fingerprint:
        return failed('Specify either "key" or "fingerprint", not both.')
    if given.key and not given.enc:
        return failed('Required argument "enc" if using "key" argument.')
    found = context.call(
        "ssh.check_known_host",
        user,
        name,
        key=given.key,
        fingerprint=given.fingerprint,
        config=config,
        port=given.port,
        fingerprint_hash_type=given.fingerprint_hash_type,
    )
    if isinstance(found, dict):
        return failed(str(found["error"]))
    if found == "exists":
        return done(f"Host {name} is already in {config}")
    if found == "add":
        return would(f"Key for {name} is set to be added to {config}")
    return would(f"Key for {name} is set to be updated in {config}")


def _result(found: Dict[str, Any], name: str, config: str, by_key: bool) -> StateResult:
    """Return the result of the state for one of ssh.set_known_host."""
    if found["status"] == "exists":
        return done(f"{name} already exists in {config}")
    if found["status"] == "error":
        return failed(str(found["error"]))
    changes = {"old": found["old"], "new": found["new"]}
    what = "key" if by_key else "fingerprint"
    told = found["new"][0][what]
    return done(f"{name}'s key saved to {config} ({what}: {told})", changes)


@state()
def absent(
    context: Context,
    name: str,
    user: Optional[str] = None,
    config: Optional[str] = None,
    port: Any = None,
) -> StateResult:
    """Make sure that no key of an SSH server is known.

    Args:
        context: the call's context.
        name: the server, as in github.com.
        user: owner of the file; None: everybody on the host.
        config: path of the file.
        port: of the server, if it is not 22.
    """
    try:
        path = _config(user, config)
        known = context.call("ssh.get_known_host_entries", user, name, config=path, port=port)
        if isinstance(known, dict):
            return failed(str(known["error"]))
        if not known:
            return done("Host is already absent")
        if context.test:
            return would(f"Key for {name} is set to be removed from {path}")
        found = context.call("ssh.rm_known_host", user, name, config=path, port=port)
    except _REFUSALS as problem:
        return failed(str(problem))
    if found["status"] == "error":
        return failed(str(found["error"]))
    return done(str(found["comment"]), {"old": known, "new": None})
