"""Host keys: the user's and the system's known_hosts files, and catena's own.

The rules are those of sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. There is no trust on first use:
unknown and changed keys are refused, and the error names the command that accepts the key.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from catena.core.files import durable_folder, read_limited, write_durable
from catena.core.frozen import dataclass
from catena.ssh.connect import host_certificate
from catena.ssh.connect.errors import HostKeyError, PushPhase

SIZE_LIMIT = 16 * 1024 * 1024
_CA, _REVOKED = "@cert-authority", "@revoked"
SSH_PORT = 22


@dataclass(frozen=True)
class HostKey:
    """A public key as a host shows it."""

    #: ssh-ed25519, ssh-rsa, ecdsa-sha2-nistp256, …
    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`, as ssh-keygen -l prints it."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest())
        return "SHA256:" + digest.decode("ascii").rstrip("=")


@dataclass(frozen=True)
class KnownHostsEntry:
    """One line of a known_hosts file."""

    #: Patterns, or one hashed name (|1|salt|hash).
    names: tuple[str, ...]
    key: HostKey
    #: "", @cert-authority or @revoked.
    marker: str
    #: file:line, for messages.
    place: str

    def is_for(self, name: str) -> bool:
        """Return whether the line applies to *name* (`host`, or `[host]:port`)."""
        if len(self.names) == 1 and self.names[0].startswith("|1|"):
            return _hashed_is(self.names[0], name)
        if any(p.startswith("!") and _matches(p[1:], name) for p in self.names):
            return False
        return any(_matches(pattern, name) for pattern in self.names)


class KeyVerdict(StrEnum):
    """The result of the check of a host key."""

    known = "known"
    unknown = "unknown"
    changed = "changed"
    revoked = "revoked"


def lookup_name(host: str, port: int) -> str:
    """Return the name of *host* at *port* in known_hosts."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def read(paths: Iterable[Path]) -> list[KnownHostsEntry]:
    """Return the entries of known_hosts files; skip missing and unreadable files.

    As in ssh, malformed lines are skipped; this can only make a host unknown.

    Raises:
        LimitError: a file is larger than 16 MiB.
        OSError: a file can't be read for a reason other than its permissions.
    """
    found: list[KnownHostsEntry] = []
    for path in paths:
        if path.exists() and not path.is_file():
            # UserKnownHostsFile /dev/null means that there is no file.
            continue
        try:
            text = read_limited(path, SIZE_LIMIT).decode("utf-8", "replace")
        except (FileNotFoundError, PermissionError):
            # The file belongs to root and this user can't read it; its hosts stay unknown.
            continue
        for number, line in enumerate(text.splitlines(), 1):
            entry = _entry(line, f"{path}:{number}")
            if entry is not None:
                found.append(entry)
    return found


def judge(entries: Sequence[KnownHostsEntry], name: str, key: HostKey) -> tuple[KeyVerdict, str]:
    """Return the verdict of *entries* on *key* of *name*, and the place of the deciding line.

    As in ssh, one matching line is sufficient; a revoked key is refused in any case.
    """
    about = [entry for entry in entries if entry.is_for(name)]
    for entry in about:
        if entry.marker == _REVOKED and entry.key == key:
            return KeyVerdict.revoked, entry.place
    plain = [entry for entry in about if not entry.marker]
    for entry in plain:
        if entry.key == key:
            return KeyVerdict.known, entry.place
    for entry in plain:
        if entry.key.kind == key.kind:
            return KeyVerdict.changed, entry.place
    # Known key types are requested first, so a key of another type means a changed key.
    return (KeyVerdict.changed, plain[0].place) if plain else (KeyVerdict.unknown, "")


def kinds_known(entries: Sequence[KnownHostsEntry], name: str) -> list[str]:
    """Return the known key types of *name*, which are requested from the host first."""
    kinds = [entry.key.kind for entry in entries if not entry.marker and entry.is_for(name)]
    return list(dict.fromkeys(kinds))


def authorities(entries: Sequence[KnownHostsEntry], name: str) -> list[bytes]:
    """Return the public keys of the authorities for *name*, without revoked ones."""
    about = [entry for entry in entries if entry.is_for(name)]
    revoked = {entry.key.blob for entry in about if entry.marker == _REVOKED}
    found = (entry.key.blob for entry in about if entry.marker == _CA)
    return [blob for blob in dict.fromkeys(found) if blob not in revoked]


def check(
    entries: Sequence[KnownHostsEntry],
    target_id: str,
    settle: str,
    name: str,
    key: HostKey,
    certificate: bytes = b"",
) -> None:
    """Check that *key* is known for *name* or certified by an authority.

    Args:
        entries: of all known_hosts files.
        target_id: for messages.
        settle: the command that accepts the key.
        name: as returned by `lookup_name`.
        key: the key that the host has proved to hold.
        certificate: of the key, or b"".

    Raises:
        HostKeyError: unknown, changed or revoked.
    """
    verdict, place = judge(entries, name, key)
    if verdict is KeyVerdict.known:
        return
    why = ""
    if certificate and verdict is not KeyVerdict.revoked:
        try:
            host = name.partition("]")[0].removeprefix("[")
            found = host_certificate.parse(certificate)
            host_certificate.check(found, host, authorities(entries, name))
        except host_certificate.CertificateError as error:
            why = f"; its certificate does not help: {error}"
        else:
            return
    shown = f"{key.kind} {key.fingerprint}"
    if verdict is KeyVerdict.revoked:
        what, advice = f"its key {shown} is revoked in {place}", "find out who answers there"
    elif verdict is KeyVerdict.changed:
        what = f"host key changed: it shows {shown}, {place} has another"
        advice = f"if the host was made anew: {settle}; if not, somebody else answers for it"
    else:
        what = f"its key is not known: {shown}"
        advice = f"compare it on the host's console, then: {settle}"
    raise HostKeyError(target_id, PushPhase.host_key, what + why, advice)


# -- catena's file -----------------------------------------------------------------------------


def trust(path: Path, name: str, keys: Sequence[HostKey]) -> None:
    """Store *keys* as the only ones for *name* in catena's own file, durably."""
    with _locked(path):
        kept = [line for line in _lines(path) if not _is_about(line, name)]
        kept += [f"{name} {key.kind} {base64.b64encode(key.blob).decode()}" for key in keys]
        _write(path, kept)


def forget(path: Path, name: str) -> list[HostKey]:
    """Remove the keys of *name* from catena's own file; return them."""
    with _locked(path):
        lines = _lines(path)
        gone = [line for line in lines if _is_about(line, name)]
        if gone:
            _write(path, [line for line in lines if line not in gone])
    entries = (_entry(line, "") for line in gone)
    return [entry.key for entry in entries if entry is not None]


def _is_about(line: str, name: str) -> bool:
    entry = _entry(line, "")
    return entry is not None and entry.names == (name,)


def _lines(path: Path) -> list[str]:
    try:
        return read_limited(path, SIZE_LIMIT).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def _write(path: Path, lines: Sequence[str]) -> None:
    write_durable(path, "".join(f"{line}\n" for line in lines).encode("utf-8"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    durable_folder(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# -- one line ----------------------------------------------------------------------------------


def _entry(line: str, place: str) -> KnownHostsEntry | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if marker not in ("", _CA, _REVOKED) or len(words) < 3:
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    names = tuple(name if name.startswith("|") else name.lower() for name in words[0].split(","))
    return KnownHostsEntry(names, HostKey(words[1], blob), marker, place)


def _matches(pattern: str, name: str) -> bool:
    # Only * and ? are special in known_hosts; a bracket is part of [host]:port.
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _hashed_is(hashed: str, name: str) -> bool:
    parts = hashed.split("|")
    if len(parts) != 4:
        return False
    try:
        salt, wanted = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode("utf-8"), "sha1").digest(), wanted)
