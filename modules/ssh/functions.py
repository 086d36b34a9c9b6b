"""ssh.*: users' authorized keys, key files and known hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.logs import logger
from catena.core.plugins import function
from catena.modules.file.source import FileSource, fetch
from catena.modules.shared import accounts, users_files
from catena.modules.shared.accounts import User
from catena.modules.shared.users_files import Owner
from catena.modules.ssh import keys
from catena.modules.ssh.keys import AuthorizedKey
from catena.modules.ssh.known_hosts import (  # noqa: F401  # functions of the module "ssh"
    check_known_host,
    get_known_host,
    get_known_host_entries,
    hash_known_hosts,
    recv_known_host,
    recv_known_host_entries,
    rm_known_host,
    set_known_host,
)

LOG = logger(__name__)

CONFIG = ".ssh/authorized_keys"
#: Result of a change of several keys: the first that one of them has.
SET_ORDER = ("fail", "Invalid public key", "replace", "new", "no change")
_REMOVED_ORDER = ("Key not removed", "Key removed", "Key not present")
_HOST_KEY = re.compile(r"ssh_host_(?P<type>.+)_key(?P<public>(?P<cert>-cert)?\.pub)?\Z")
_USER_KEYS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")


def path_of(user: str, config: Any) -> Path:
    """Return the path of a user's file; %h is the home, %u the user, relative to the home.

    Raises:
        CommandExecutionError: no such user, or an unknown token.
    """
    found = accounts.find(user)
    if found is None:
        raise CommandExecutionError(f"User '{user}' does not exist")
    tokens = {"%": "%", "u": found.name, "h": found.home}

    def value(match: re.Match[str]) -> str:
        token = match.group(1)
        if token not in tokens:
            raise CommandExecutionError(
                f'AuthorizedKeysFile path: unknown token character "%{token}"'
            )
        return tokens[token]

    path = re.sub(r"%(.?)", value, str(config))
    return Path(found.home, path)


def _text(path: Path) -> str:
    data = users_files.read(path)
    return "" if data is None else data.decode("utf-8", "surrogateescape")


def _write(context: Context, user: User, path: Path, text: str) -> None:
    new = users_files.read(path) is None
    owner = Owner(user.uid, user.gid)
    users_files.write(path, text.encode("utf-8", "surrogateescape"), owner)
    if new:
        relabel(context, path)


def relabel(context: Context, path: Path) -> None:
    """Give a new file and its folder the labels of the SELinux policy, if SELinux is enabled."""
    if Path("/sys/fs/selinux/enforce").exists():
        from catena.modules.shared import programs

        words = ["restorecon", "--", str(path.parent), str(path)]
        try:
            programs.need(context, words, "policycoreutils")
        except CommandExecutionError as problem:
            LOG.warning("%s keeps its SELinux label: %s", path, problem)


@function(reads=True)
def auth_keys(
    context: Context,
    user: Any = None,
    config: str = CONFIG,
    fingerprint_hash_type: Optional[str] = None,
) -> Dict[str, Any]:
    """Return the authorized keys of a user, or by user of several users.

    Args:
        context: the host.
        user: name, or a list; default: all users.
        config: path of the file, relative to the home; %h and %u are replaced.
        fingerprint_hash_type: default: sha256.
    """
    several = isinstance(user, (list, tuple)) or not user
    names = list(user) if isinstance(user, (list, tuple)) else [user]
    found: Dict[str, Any] = {}
    for name in names if user else sorted(accounts.read().users):
        try:
            data = users_files.read(path_of(name, config))
        except CommandExecutionError:
            if not several and accounts.find(name):
                raise
            continue
        if data is not None:
            shown = keys.by_key(data.decode("utf-8", "surrogateescape")).values()
            found[name] = {one.key: _shown(one, fingerprint_hash_type) for one in shown}
    return found if several else dict(found.get(user) or {})


def _shown(one: AuthorizedKey, kind: Optional[str]) -> Dict[str, Any]:
    return {
        "enc": one.enc,
        "comment": one.comment,
        "options": list(one.options),
        "fingerprint": keys.fingerprint(one.key, kind),
    }


@function(reads=True)
def check_key(
    context: Context,
    /,
    user: str,
    key: str,
    enc: str,
    comment: str,
    options: Any,
    config: str = CONFIG,
    cache_keys: Any = None,
    fingerprint_hash_type: Optional[str] = None,
) -> str:  # fmt: skip
    """Return whether a key would be added or updated: "add", "update" or "exists".

    Args:
        context: the host.
        user: owner of the file.
        key: base64.
        enc: type of the key, as in ssh-rsa.
        comment: text after the key.
        options: list of options before the key.
        config: path of the file, relative to the home; %h and %u are replaced.
        cache_keys: ignored, as in Salt.
        fingerprint_hash_type: ignored.
    """
    one = keys.wanted(str(key), keys.refined(enc), comment, options)
    if accounts.find(user) is None:
        return "add"
    return keys.status_of(_text(path_of(user, config)), one)


@function()
def set_auth_key(
    context: Context,
    /,
    user: str,
    key: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    options: Any = None,
    config: str = CONFIG,
    cache_keys: Any = None,
    fingerprint_hash_type: Optional[str] = None,
) -> str:  # fmt: skip
    """Add a key to a user's authorized keys, or update its type, comment and options.

    Args:
        context: the host.
        user: owner of the file.
        key: base64.
        enc: type of the key, as in ssh-rsa, or a short name, as in rsa.
        comment: text after the key.
        options: list of options before the key.
        config: path of the file, relative to the home; %h and %u are replaced.
        cache_keys: ignored, as in Salt.
        fingerprint_hash_type: ignored.

    Returns:
        "new", "replace", "no change", "fail" (no user or home), "invalid" or
        "Invalid public key".

    Raises:
        CommandExecutionError: unknown type, or the file can't be written.
    """
    if len(str(key).split()) != 1:
        return "invalid"
    one = keys.wanted(str(key), keys.refined(enc), comment, options)
    return set_one(context, user, one, config)


def set_one(context: Context, user: str, one: AuthorizedKey, config: str) -> str:
    """Add or update one key; return the result of ssh.set_auth_key.

    Raises:
        CommandExecutionError: the file can't be written.
    """
    found = accounts.find(user)
    if found is None:
        return "fail"
    if keys.fingerprint(one.key) is None:
        return "Invalid public key"
    path = path_of(user, config)
    home = Path(found.home)
    if home in path.parents and not home.is_dir():
        return "fail"
    text = _text(path)
    status = keys.status_of(text, one)
    if status == "exists":
        return "no change"
    _write(context, found, path, keys.with_key(text, one))
    return "replace" if status == "update" else "new"


@function()
def rm_auth_key(
    context: Context,
    user: str,
    key: str,
    config: str = CONFIG,
    fingerprint_hash_type: Optional[str] = None,
) -> str:
    """Remove a key from a user's authorized keys; return "Key removed" or "Key not present".

    Raises:
        CommandExecutionError: the file can't be written.
    """
    found = accounts.find(user)
    if found is None:
        return "Key not present"
    path = path_of(user, config)
    text = _text(path)
    if str(key) not in keys.by_key(text):
        return "Key not present"
    _write(context, found, path, keys.without_key(text, str(key)))
    return "Key removed"


def keys_of_source(context: Context, source: str, saltenv: str) -> Optional[List[AuthorizedKey]]:
    """Return the keys of a file of the file server or of this host; None: no such file.

    Raises:
        CommandExecutionError: the file holds no key, or can't be fetched.
    """
    local = fetch(context, FileSource(str(source), saltenv, skip_verify=True))
    if local is None:
        return None
    text = local.read_text(encoding="utf-8", errors="surrogateescape")
    found = list(keys.by_key(text).values())
    if not found:
        raise CommandExecutionError(f"No keys detected in {source}. Is file properly formatted?")
    return found


def _needed(context: Context, source: str, saltenv: str) -> List[AuthorizedKey]:
    found = keys_of_source(context, source, saltenv)
    if found is None:
        raise CommandExecutionError(f"Failed to pull key file from salt file server: {source}")
    return found


def first_of(results: Iterable[str], order: Iterable[str]) -> str:
    """Return the first of *order* that is among *results*."""
    found = set(results)
    return next(one for one in order if one in found)


@function(reads=True)
def check_key_file(
    context: Context,
    user: str,
    source: str,
    config: str = CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: Optional[str] = None,
) -> Dict[str, str]:
    """Return the result of ssh.check_key for each key of a file; {} if it does not exist.

    Raises:
        CommandExecutionError: the file holds no key.
    """
    text = _text(path_of(user, config)) if accounts.find(user) else ""
    found = keys_of_source(context, source, saltenv) or []
    return {one.key: keys.status_of(text, one) for one in found}


@function()
def set_auth_key_from_file(
    context: Context,
    user: str,
    source: str,
    config: str = CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: Optional[str] = None,
) -> str:
    """Add the keys of a file to a user's authorized keys; return as ssh.set_auth_key does.

    Raises:
        CommandExecutionError: no such file, it holds no key, or a key can't be written.
    """
    found = _needed(context, source, saltenv)
    return first_of([set_one(context, user, one, config) for one in found], SET_ORDER)


@function()
def rm_auth_key_from_file(
    context: Context,
    user: str,
    source: str,
    config: str = CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: Optional[str] = None,
) -> str:
    """Remove the keys of a file from a user's authorized keys; return as ssh.rm_auth_key does.

    Raises:
        CommandExecutionError: no such file, it holds no key, or a key can't be removed.
    """
    found = _needed(context, source, saltenv)
    return first_of([rm_auth_key(context, user, one.key, config) for one in found], _REMOVED_ORDER)


@function(reads=True)
def host_keys(
    context: Context, keydir: Optional[str] = None, private: bool = False, certs: bool = True
) -> Dict[str, str]:
    """Return the host keys of this host.

    Args:
        context: the host.
        keydir: default: /etc/ssh.
        private: also return private keys; the master stores returns.
        certs: also return certificates.
    """
    folder, found = Path(keydir or "/etc/ssh"), {}
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    for path in sorted(folder.iterdir()):
        match = _HOST_KEY.match(path.name)
        if match is None or (match["cert"] and not certs) or not (match["public"] or private):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            text = ""
        found[f"{match['type']}{match['public'] or ''}"] = text
    return found


@function(reads=True)
def user_keys(
    context: Context, user: Any = None, pubfile: Any = None, prvfile: Any = False
) -> Dict[str, Dict[str, str]]:
    """Return users' public keys, and private keys only on request.

    Args:
        context: the host.
        user: name, or a list; default: all users.
        pubfile: name in ~/.ssh, or absolute path; None: the usual names; False: none.
        prvfile: likewise for private keys; the master stores returns.
    """
    names = list(user) if isinstance(user, (list, tuple)) else [user]
    public = [f"{name}.pub" for name in _USER_KEYS]
    files = [
        *([str(pubfile)] if pubfile else [] if pubfile is False else public),
        *([str(prvfile)] if prvfile else [] if prvfile is False else _USER_KEYS),
    ]
    found: Dict[str, Dict[str, str]] = {}
    for one in [str(name) for name in names] if user else sorted(accounts.read().users):
        owner = accounts.find(one)
        if owner is None:
            continue
        held = {}
        for name in files:
            try:
                data = users_files.read(Path(owner.home, ".ssh", name))
            except CommandExecutionError as problem:
                LOG.warning("skipped a key file of %s: %s", one, problem)
                continue
            if data is not None:
                held[Path(name).name] = data.decode("utf-8", "replace").strip()
        if held:
            found[one] = held
    return found


@function(reads=True)
def key_is_encrypted(context: Context, key: str) -> bool:
    """Return whether the private key file *key* is encrypted by a passphrase.

    Raises:
        CommandExecutionError: there is no such file.
    """
    data = users_files.read(Path(key))
    if data is None:
        raise CommandExecutionError(f"{key}: no such file")
    if b"ENCRYPTED" in data:
        return True
    body = b"".join(line for line in data.splitlines() if not line.startswith(b"-----"))
    return data.startswith(b"-----BEGIN OPENSSH") and not _is_plain(body)


def _is_plain(body: bytes) -> bool:
    """Return whether the OpenSSH key file with the base64 *body* names the cipher "none"."""
    import base64
    import binascii

    try:
        raw = base64.b64decode(body)
    except binascii.Error:
        return True
    return raw[15:23] == b"\0\0\0\4none"
