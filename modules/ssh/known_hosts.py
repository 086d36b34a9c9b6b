"""ssh.*: the hosts that a user knows, in known_hosts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared import accounts, users_files
from catena.modules.shared.arguments import truth
from catena.modules.shared.users_files import Owner
from catena.modules.ssh.keys import fingerprint, refined

SYSTEM_CONFIG = "/etc/ssh/ssh_known_hosts"
USER_CONFIG = ".ssh/known_hosts"
_PORT = 22
#: Times that ssh-keyscan is run until a host answers, as in Salt.
_ATTEMPTS = 5
_HASHED = "|1|"
_HOST = re.compile(r"[A-Za-z0-9_.:*?!%\[\]-]+\Z")

Answer = Dict[str, Any]
Entry = Dict[str, str]


@dataclass(frozen=True)
class KnownLine:
    """One line of known_hosts."""

    hosts: str
    enc: str
    key: str
    #: As in @cert-authority; "" on most lines.
    marker: str = ""

    def is_of(self, host: str) -> bool:
        """Return whether the line is about *host* ("name" or "[name]:port")."""
        if self.hosts.startswith(_HASHED):
            salt, _, digest = self.hosts[len(_HASHED) :].partition("|")
            try:
                made = _digest(base64.b64decode(salt), host)
            except ValueError:
                return False
            return hmac.compare_digest(made.encode(), digest.encode())
        return host.lower() in (one.lower() for one in self.hosts.split(","))


def _digest(salt: bytes, host: str) -> str:
    made = hmac.new(salt, host.lower().encode(), hashlib.sha1).digest()
    return base64.b64encode(made).decode()


def hashed(host: str) -> str:
    """Return a host's name as `HashKnownHosts` of ssh stores it, with a new random salt."""
    salt = os.urandom(20)
    return f"{_HASHED}{base64.b64encode(salt).decode()}|{_digest(salt, host)}"


def parse(line: str) -> Optional[KnownLine]:
    """Return a line of known_hosts; None for a comment or a line without a key."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3:
        return None
    return KnownLine(words[0], words[1], words[2], marker)


def name_of(hostname: str, port: Any = None) -> str:
    """Return a host as ssh looks it up: "name", or "[name]:port" for another port than 22.

    Raises:
        UsageError: *hostname* or *port* can't be one.
    """
    host = str(hostname)
    if not _HOST.match(host) or host.startswith("-"):
        raise UsageError(f"{host[:80]!r} can't be the name of a host")
    number = _number(port, "port")
    return host if number in (None, _PORT) else f"[{host}]:{number}"


def _number(value: Any, what: str) -> Optional[int]:
    if value in (None, ""):
        return None
    try:
        return int(str(value))
    except ValueError:
        raise UsageError(f"{what} must be a whole number, not {str(value)[:80]!r}") from None


def _file(user: Optional[str], config: Optional[str]) -> Tuple[Path, Owner]:
    """Return the path of a known_hosts file and the owner of a new one.

    Raises:
        CommandExecutionError: no such user, or a relative path without a user.
    """
    if not user:
        path = Path(config or SYSTEM_CONFIG)
        if not path.is_absolute():
            raise CommandExecutionError("Cannot determine absolute path to file.")
        return path, Owner(os.geteuid(), os.getegid())
    found = accounts.find(user)
    if found is None:
        raise CommandExecutionError(f"User {user} does not exist")
    return Path(found.home, config or USER_CONFIG), Owner(found.uid, found.gid)


def _lines(path: Path) -> List[str]:
    data = users_files.read(path) or b""
    return data.decode("utf-8", "surrogateescape").splitlines()


def _save(path: Path, owner: Owner, lines: List[str], mode: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    users_files.write(path, text.encode("utf-8", "surrogateescape"), owner, mode)


def _entry(line: KnownLine, kind: Optional[str]) -> Entry:
    made = fingerprint(line.key, kind) or ""
    return {"hostname": line.hosts, "key": line.key, "enc": line.enc, "fingerprint": made}


def _is_valid(line: Optional[KnownLine]) -> bool:
    return line is not None and not line.marker and fingerprint(line.key) is not None


@function(reads=True)
def get_known_host_entries(
    context: Context,
    user: Optional[str],
    hostname: str,
    config: Optional[str] = None,
    port: Any = None,
    fingerprint_hash_type: Optional[str] = None,
) -> Union[List[Entry], Answer, None]:
    """Return the keys of a host in a known_hosts file; None if it has none.

    Args:
        context: the host.
        user: owner of the file; None: the system's file.
        hostname: as in github.com.
        config: path, relative to the home.
        port: of the SSH server; default: 22.
        fingerprint_hash_type: default: sha256.
    """
    host = name_of(hostname, port)
    try:
        lines = _lines(_file(user, config)[0])
    except CommandExecutionError as problem:
        return {"status": "error", "error": str(problem)}
    found = [line for line in map(parse, lines) if line and _is_valid(line) and line.is_of(host)]
    return [_entry(line, fingerprint_hash_type) for line in found] or None


@function(reads=True)
def recv_known_host_entries(
    context: Context,
    hostname: str,
    enc: Optional[str] = None,
    port: Any = None,
    hash_known_hosts: bool = True,
    timeout: Any = 5,
    fingerprint_hash_type: Optional[str] = None,
) -> Optional[List[Entry]]:
    """Return the keys that a remote host shows now; None if it does not answer.

    Args:
        context: the host.
        hostname: as in github.com.
        enc: type of the keys, as in ed25519; default: all.
        port: of the SSH server; default: 22.
        hash_known_hosts: return hashed names.
        timeout: seconds for each attempt.
        fingerprint_hash_type: default: sha256.
    """
    from catena.modules.shared import programs

    name_of(hostname, port)
    seconds = _number(timeout, "timeout") or 5
    words = ["ssh-keyscan"]
    if port:
        words += ["-p", str(_number(port, "port"))]
    if enc:
        words += ["-t", _type(enc)]
    if truth(hash_known_hosts):
        words.append("-H")
    words += ["-T", str(seconds), "--", str(hostname)]
    for _ in range(_ATTEMPTS):
        ran = programs.look(context, words, "openssh-client", timeout=6 * seconds + 10)
        found = [line for line in map(parse, ran.stdout.splitlines()) if line and _is_valid(line)]
        if found:
            return [_entry(line, fingerprint_hash_type) for line in found]
    return None


@function(reads=True)
def get_known_host(
    context: Context, user: Optional[str], hostname: str, config: Optional[str] = None
) -> Optional[Entry]:
    """Return the first result of ssh.get_known_host_entries (Salt's older name)."""
    found = get_known_host_entries(context, user, hostname, config)
    if isinstance(found, dict):
        raise CommandExecutionError(str(found["error"]))
    return found[0] if found else None


@function(reads=True)
def recv_known_host(
    context: Context,
    hostname: str,
    enc: Optional[str] = None,
    port: Any = None,
    hash_known_hosts: bool = True,
    timeout: Any = 5,
) -> Optional[Entry]:
    """Return the first result of ssh.recv_known_host_entries (Salt's older name)."""
    found = recv_known_host_entries(context, hostname, enc, port, hash_known_hosts, timeout)
    return found[0] if found else None


def _type(enc: Any) -> str:
    if not re.match(r"[A-Za-z0-9][A-Za-z0-9@.,-]*\Z", str(enc)):
        raise UsageError(f"{str(enc)[:80]!r} can't be the type of a key")
    return str(enc)


@function(reads=True)
def check_known_host(
    context: Context,
    /,
    user: Optional[str] = None,
    hostname: Optional[str] = None,
    key: Optional[str] = None,
    fingerprint: Optional[str] = None,
    config: Optional[str] = None,
    port: Any = None,
    fingerprint_hash_type: Optional[str] = None,
) -> Union[str, Answer]:
    """Return whether a host would be added or updated: "add", "update" or "exists".

    Args:
        context: the host.
        user: owner of the file; None: the system's file.
        hostname: as in github.com.
        key: wanted key.
        fingerprint: wanted fingerprint, if *key* is not given.
        config: path, relative to the home.
        port: of the SSH server; default: 22.
        fingerprint_hash_type: default: sha256.
    """
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    found = get_known_host_entries(context, user, hostname, config, port, fingerprint_hash_type)
    if isinstance(found, dict):
        return found
    if not found:
        return "add"
    wanted, part = (key, "key") if key else (fingerprint, "fingerprint")
    return "exists" if not wanted or wanted in [one[part] for one in found] else "update"


@function()
def rm_known_host(
    context: Context,
    user: Optional[str] = None,
    hostname: Optional[str] = None,
    config: Optional[str] = None,
    port: Any = None,
) -> Answer:
    """Remove all keys of a host from a known_hosts file; return {status, comment or error}."""
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    host = name_of(hostname, port)
    try:
        path, owner = _file(user, config)
        if users_files.read(path) is None:
            return {"status": "error", "error": f"Known hosts file {path} does not exist"}
        lines = _lines(path)
        kept = _without(lines, host)
        if kept != lines:
            _save(path, owner, kept, 0o600)
    except CommandExecutionError as problem:
        return {"status": "error", "error": str(problem)}
    return {"status": "removed", "comment": f"Keys of {host} removed from {path}"}


@dataclass(frozen=True)
class HostOptions:
    """Options of ssh.set_known_host and ssh_known_hosts.present, as Salt names them."""

    fingerprint: Optional[str] = None
    key: Optional[str] = None
    port: Any = None
    enc: Optional[str] = None
    config: Optional[str] = None
    hash_known_hosts: Any = True
    timeout: Any = 5
    fingerprint_hash_type: Optional[str] = None


@function()
def set_known_host(
    context: Context,
    /,
    user: Optional[str] = None,
    hostname: Optional[str] = None,
    fingerprint: Optional[str] = None,
    key: Optional[str] = None,
    port: Any = None,
    enc: Optional[str] = None,
    config: Optional[str] = None,
    hash_known_hosts: Any = True,
    timeout: Any = 5,
    fingerprint_hash_type: Optional[str] = None,
) -> Answer:
    """Save a host's key, a given one or one that the host shows, in a known_hosts file.

    Args:
        context: the host.
        user: owner of the file; None: the system's file.
        hostname: as in github.com.
        fingerprint: one of the shown keys must have it.
        key: the key, instead of asking the host.
        port: of the SSH server; default: 22.
        enc: type of the key.
        config: path, relative to the home.
        hash_known_hosts: store a hash of the name.
        timeout: seconds for each attempt to ask the host.
        fingerprint_hash_type: default: sha256.

    Returns:
        {status: "exists" | "updated" | "error", …}.
    """
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    wanted = HostOptions(
        fingerprint, key, port, enc, config, hash_known_hosts, timeout, fingerprint_hash_type
    )
    return _set(context, user, str(hostname), wanted)


def _set(context: Context, user: Optional[str], hostname: str, wanted: HostOptions) -> Answer:
    if _number(wanted.port, "port") not in (None, _PORT) and truth(wanted.hash_known_hosts):
        told = "argument port can not be used in conjunction with argument hash_known_hosts"
        return {"status": "error", "error": told}
    kind = wanted.fingerprint_hash_type
    stored = get_known_host_entries(context, user, hostname, wanted.config, wanted.port, kind)
    if isinstance(stored, dict):
        return stored
    keys = [one["key"] for one in stored or ()]
    same = {"status": "exists", "keys": keys}
    part, value = ("key", wanted.key) if wanted.key else ("fingerprint", wanted.fingerprint)
    if value and value in [one[part] for one in stored or ()]:
        return same
    try:
        shown = _given(hostname, wanted) if wanted.key else _shown(context, hostname, wanted)
        if not value and set(keys) & {one["key"] for one in shown}:
            return same
        _store(user, hostname, wanted, shown)
    except CommandExecutionError as problem:
        return {"status": "error", "error": str(problem)}
    return {"status": "updated", "old": stored, "new": shown}


def _given(hostname: str, wanted: HostOptions) -> List[Entry]:
    """Return the entry of the given key.

    Raises:
        CommandExecutionError: its type is missing, or it is no base64.
    """
    if not wanted.enc:
        raise CommandExecutionError("key needs its type: enc")
    key = str(wanted.key)
    if fingerprint(key) is None:
        raise CommandExecutionError("key must be a base64 text")
    return [{"hostname": hostname, "enc": refined(wanted.enc), "key": key}]


def _shown(context: Context, hostname: str, wanted: HostOptions) -> List[Entry]:
    """Return the entries that the remote host shows.

    Raises:
        CommandExecutionError: it does not answer, or no key has the wanted fingerprint.
    """
    found = recv_known_host_entries(
        context,
        hostname,
        wanted.enc,
        wanted.port,
        False,
        wanted.timeout,
        wanted.fingerprint_hash_type,
    )
    if not found:
        raise CommandExecutionError("Unable to receive remote host keys")
    if wanted.fingerprint and wanted.fingerprint not in [one["fingerprint"] for one in found]:
        raise CommandExecutionError(
            "Remote host public keys found but none of their fingerprints match the one you have "
            "provided"
        )
    return found


def _store(user: Optional[str], hostname: str, wanted: HostOptions, shown: List[Entry]) -> None:
    """Replace the keys of a host that have the types of the new keys."""
    path, owner = _file(user, wanted.config)
    host = name_of(hostname, wanted.port)
    types = {one["enc"] for one in shown}
    kept = _without(_lines(path), host, types)
    for one in shown:
        name = hashed(host) if truth(wanted.hash_known_hosts) else host
        kept.append(f"{name} {one['enc']} {one['key']}")
    # All users read the system's file.
    _save(path, owner, kept, 0o600 if user else 0o644)


def _without(lines: List[str], host: str, types: Optional[Set[str]] = None) -> List[str]:
    """Return the lines without the keys of *host*; other hosts of a line keep their key.

    Args:
        lines: of a known_hosts file.
        host: "name" or "[name]:port".
        types: of the keys; None: all. Marked lines (@revoked) stay.
    """
    kept = []
    for line in lines:
        found = parse(line)
        if found is None or found.marker or not found.is_of(host):
            kept.append(line)
        elif types is not None and found.enc not in types:
            kept.append(line)
        elif not found.hosts.startswith(_HASHED):
            others = [one for one in found.hosts.split(",") if one.lower() != host.lower()]
            if others:
                kept.append(f"{','.join(others)} {found.enc} {found.key}")
    return kept


@function()
def hash_known_hosts(
    context: Context, user: Optional[str] = None, config: Optional[str] = None
) -> Answer:
    """Replace all names in a known_hosts file by hashes; return {status, comment or error}."""
    try:
        path, owner = _file(user, config)
        if users_files.read(path) is None:
            return {"status": "error", "error": f"Known hosts file {path} does not exist"}
        lines = _lines(path)
        made = [one for line in lines for one in _hashed_line(line)]
        if made != lines:
            _save(path, owner, made, 0o600)
    except CommandExecutionError as problem:
        return {"status": "error", "error": str(problem)}
    return {"status": "updated", "comment": f"{path} updated."}


def _hashed_line(line: str) -> List[str]:
    """Return a line per host of *line*, hashed; patterns and marked lines stay."""
    found = parse(line)
    if found is None or found.marker or found.hosts.startswith(_HASHED):
        return [line]
    if any(mark in found.hosts for mark in "*?!"):
        return [line]
    return [f"{hashed(host)} {found.enc} {found.key}" for host in found.hosts.split(",")]
