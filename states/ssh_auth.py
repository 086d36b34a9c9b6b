"""ssh_auth.*: the keys with which a user may log in by SSH."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import split
from catena.modules.ssh import keys
from catena.modules.ssh.functions import CONFIG, SET_ORDER, first_of, keys_of_source
from catena.modules.ssh.keys import AuthorizedKey
from catena.states.answers import done, failed, likely_typos, would

_REFUSALS = (CommandExecutionError, UsageError)
_INVALID = "Invalid public ssh key, most likely has spaces or invalid syntax"
_NO_HOME = (
    "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?"
)


@dataclass(frozen=True)
class KeyOptions:
    """Keyword arguments of the states, with Salt's names and defaults."""

    enc: str = "ssh-rsa"
    comment: str = ""
    #: Address of a file with keys, used instead of the name.
    source: str = ""
    options: Any = None
    config: str = CONFIG
    fingerprint_hash_type: Optional[str] = None


def _keys(context: Context, name: Any, given: KeyOptions) -> Optional[List[AuthorizedKey]]:
    """Return the keys that a state describes; None if the source does not exist."""
    if not given.source:
        return [keys.wanted(name, given.enc, given.comment, given.options)]
    found = keys_of_source(context, given.source, context.saltenv)
    if found is None:
        return None
    options = keys.checked_options(given.options)
    return [replace(one, options=one.options or options) for one in found]


def _status(context: Context, user: str, one: AuthorizedKey, given: KeyOptions) -> str:
    return str(
        context.call(
            "ssh.check_key", user, one.key, one.enc, one.comment, list(one.options), given.config
        )
    )


@state()
def present(context: Context, /, name: str, user: str, **arguments: Any) -> StateResult:
    """Make sure that a key is among a user's authorized keys, with this comment and options.

    Args:
        context: the call's context.
        name: "KEY", "KEY COMMENT", "TYPE KEY COMMENT" or "OPTIONS TYPE KEY COMMENT".
        user: owner of the file.
        arguments: enc ("ssh-rsa"), comment, options (a list), source (file with keys, instead of
            the name), config (".ssh/authorized_keys"; %h and %u are replaced),
            fingerprint_hash_type.
    """
    given, rest = split(KeyOptions, arguments)
    warnings = likely_typos(KeyOptions, rest, "ssh_auth.present")
    try:
        found = _present(context, name, user, given)
    except _REFUSALS as problem:
        found = failed(str(problem))
    return replace(found, warnings=(*found.warnings, *warnings))


def _present(context: Context, name: str, user: str, given: KeyOptions) -> StateResult:
    wanted = _keys(context, name, given)
    if wanted is None:
        return failed(f"Failed to add the ssh key. Source file {given.source} is missing")
    if context.test:
        return _would_add(context, user, wanted, given)
    results = [
        context.call(
            "ssh.set_auth_key",
            user,
            one.key,
            enc=one.enc,
            comment=one.comment,
            options=list(one.options),
            config=given.config,
        )
        for one in wanted
    ]
    shown = name if given.source else wanted[0].key
    return _added(first_of(results, SET_ORDER), shown, user)


def _would_add(
    context: Context, user: str, wanted: Sequence[AuthorizedKey], given: KeyOptions
) -> StateResult:
    statuses = [(one.key, _status(context, user, one, given)) for one in wanted]
    to_do = [(key, status) for key, status in statuses if status != "exists"]
    if given.source:
        if to_do:
            return would("".join(f"Set to {status}: {key}\n" for key, status in to_do))
        return done(f"All host keys in file {given.source} are already present")
    if not to_do:
        told = f"The authorized host key {wanted[0].key} is already present for user {user}"
        return done(told)
    verb = "updated" if to_do[0][1] == "update" else "added"
    return would(f"Key {wanted[0].key} for user {user} is set to be {verb}")


def _added(result: str, shown: str, user: str) -> StateResult:
    """Return the result of a state for one of ssh.set_auth_key."""
    subject = f"The authorized host key {shown}"
    if result == "replace":
        return done(f"{subject} for user {user} was updated", {shown: "Updated"})
    if result == "new":
        return done(f"{subject} for user {user} was added", {shown: "New"})
    if result == "no change":
        return done(f"{subject} is already present for user {user}")
    return failed(_NO_HOME if result == "fail" else _INVALID)


@state()
def absent(context: Context, /, name: str, user: str, **arguments: Any) -> StateResult:
    """Make sure that a key is not among a user's authorized keys; arguments as of present."""
    given, rest = split(KeyOptions, arguments)
    warnings = likely_typos(KeyOptions, rest, "ssh_auth.absent")
    try:
        found = _absent(context, name, user, given)
    except _REFUSALS as problem:
        found = failed(str(problem))
    return replace(found, warnings=(*found.warnings, *warnings))


def _absent(context: Context, name: str, user: str, given: KeyOptions) -> StateResult:
    unwanted = _keys(context, name, given)
    if unwanted is None:
        return failed(f"Failed to remove the ssh key. Source file {given.source} is missing")
    if context.test:
        found = [one.key for one in unwanted if _status(context, user, one, given) != "add"]
        if given.source:
            if found:
                return would("".join(f"Set to remove: {key}\n" for key in found))
            return done(f"All host keys in file {given.source} are already absent")
        if found:
            return would(f"Key {found[0]} for user {user} is set for removal")
        return done("Key is already absent")
    results = {
        context.call("ssh.rm_auth_key", user, one.key, config=given.config) for one in unwanted
    }
    if "Key removed" not in results:
        return done("Key not present")
    return done("Key removed", {name if given.source else unwanted[0].key: "Removed"})


@state()
def manage(
    context: Context, /, name: str, ssh_keys: Any, user: str, **arguments: Any
) -> StateResult:
    """Make *ssh_keys* the only authorized keys of a user; arguments as of present."""
    given, rest = split(KeyOptions, arguments)
    warnings = likely_typos(KeyOptions, rest, "ssh_auth.manage")
    try:
        if not isinstance(ssh_keys, (list, tuple)):
            raise UsageError(f"ssh_keys must be a list, not {type(ssh_keys).__name__}")
        found = _manage(context, list(ssh_keys), user, given)
    except _REFUSALS as problem:
        found = failed(str(problem))
    return replace(found, warnings=(*found.warnings, *warnings))


def _manage(
    context: Context, ssh_keys: Sequence[Any], user: str, given: KeyOptions
) -> StateResult:
    names = [given.source] if given.source else list(ssh_keys)
    wanted = set()
    for name in names:
        described = _keys(context, name, given)
        if described is None:
            return failed(f"Failed to add the ssh key. Source file {given.source} is missing")
        if any(keys.fingerprint(one.key) is None for one in described):
            return failed(_INVALID)
        wanted |= {one.key for one in described}
    existing = context.call("ssh.auth_keys", user, config=given.config)
    unwanted = [key for key in existing if key not in wanted]
    results = [_present(context, name, user, given) for name in names]
    told = [one.comment for one in results if not one.changes]
    added = {key: value for one in results for key, value in one.changes.items()}
    outcomes = [one.result for one in results]
    if context.test:
        told = [*(f"{key} Key set for removal" for key in unwanted), *told]
        outcomes += [None] * len(unwanted)
    if False in outcomes or context.test:
        # Without a new key, a removal of the old ones might lock the user out.
        ended = False if False in outcomes else None if None in outcomes else True
        return StateResult(ended, added, "\n".join(told).strip())
    removed = {
        key: context.call("ssh.rm_auth_key", user, key, config=given.config) for key in unwanted
    }
    return done("\n".join(told).strip(), {**removed, **added})
