"""Which key a host must show: known_hosts files as people have them, and one of our own.

The rules are those of sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. A host is never trusted by being met:
unknown and changed keys are refused, with the command that settles it.
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
from catena.ssh.connect.errors import HostKeyError, Phase

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
class Entry:
    """One line of a known_hosts file."""

    #: Patterns, or one hashed name (|1|salt|hash).
    names: tuple[str, ...]
    key: HostKey
    #: "", @cert-authority or @revoked.
    marker: str
    #: file:line, for messages.
    place: str

    def is_for(self, name: str) -> bool:
        """Return whether the line is about *name* (`host`, or `[host]:port`)."""
        if len(self.names) == 1 and self.names[0].startswith("|1|"):
            return _hashed_is(self.names[0], name)
        if any(p.startswith("!") and _matches(p[1:], name) for p in self.names):
            return False
        return any(_matches(pattern, name) for pattern in self.names)


class Verdict(StrEnum):
    """What is known of a key that a host shows."""

    known = "known"
    unknown = "unknown"
    changed = "changed"
    revoked = "revoked"


def lookup_name(host: str, port: int) -> str:
    """Return how known_hosts calls *host* at *port*."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def read(paths: Iterable[Path]) -> list[Entry]:
    """Return the entries of known_hosts files; one that is missing or not ours to read has none.

    Lines that make no sense are passed over, as ssh does; they can only make a host unknown.

    Raises:
        LimitError: a file is larger than 16 MiB.
        OSError: it can't be read, for another reason than its permissions.
    """
    found: list[Entry] = []
    for path in paths:
        if path.exists() and not path.is_file():
            # UserKnownHostsFile /dev/null is how people say that there is none.
            continue
        try:
            text = read_limited(path, SIZE_LIMIT).decode("utf-8", "replace")
        except (FileNotFoundError, PermissionError):
            # Root's file, and we are not root: its hosts are unknown to us.
            continue
        for number, line in enumerate(text.splitlines(), 1):
            entry = _entry(line, f"{path}:{number}")
            if entry is not None:
                found.append(entry)
    return found


def judge(entries: Sequence[Entry], name: str, key: HostKey) -> tuple[Verdict, str]:
    """Return what *entries* say of *key* shown by *name*, and the place that says it.

    One line that agrees is enough, as for ssh; a revoked key is refused whatever else is written.
    """
    about = [entry for entry in entries if entry.is_for(name)]
    for entry in about:
        if entry.marker == _REVOKED and entry.key == key:
            return Verdict.revoked, entry.place
    plain = [entry for entry in about if not entry.marker]
    for entry in plain:
        if entry.key == key:
            return Verdict.known, entry.place
    for entry in plain:
        if entry.key.kind == key.kind:
            return Verdict.changed, entry.place
    # The kinds are asked for in the order of what is known, so another kind is another key.
    return (Verdict.changed, plain[0].place) if plain else (Verdict.unknown, "")


def kinds_known(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the kinds of keys that are known of *name*, so that the host is asked for those."""
    kinds = [entry.key.kind for entry in entries if not entry.marker and entry.is_for(name)]
    return list(dict.fromkeys(kinds))


def authorities(entries: Sequence[Entry], name: str) -> list[bytes]:
    """Return the public keys of those that may vouch for *name*, without the revoked ones."""
    about = [entry for entry in entries if entry.is_for(name)]
    revoked = {entry.key.blob for entry in about if entry.marker == _REVOKED}
    found = (entry.key.blob for entry in about if entry.marker == _CA)
    return [blob for blob in dict.fromkeys(found) if blob not in revoked]


def check(
    entries: Sequence[Entry],
    target_id: str,
    settle: str,
    name: str,
    key: HostKey,
    certificate: bytes = b"",
) -> None:
    """Refuse *key* unless it is known for *name*, or an authority vouches for it.

    Args:
        entries: of all known_hosts files.
        target_id: for messages.
        settle: the command that makes the key known.
        name: as `lookup_name` gives it.
        key: what the host has shown and proved.
        certificate: of the key, or b"".

    Raises:
        HostKeyError: unknown, changed or revoked.
    """
    verdict, place = judge(entries, name, key)
    if verdict is Verdict.known:
        return
    why = ""
    if certificate and verdict is not Verdict.revoked:
        try:
            host = name.partition("]")[0].removeprefix("[")
            found = host_certificate.parse(certificate)
            host_certificate.check(found, host, authorities(entries, name))
        except host_certificate.CertificateError as error:
            why = f"; its certificate does not help: {error}"
        else:
            return
    shown = f"{key.kind} {key.fingerprint}"
    if verdict is Verdict.revoked:
        what, advice = f"its key {shown} is revoked in {place}", "find out who answers there"
    elif verdict is Verdict.changed:
        what = f"host key changed: it shows {shown}, {place} has another"
        advice = f"if the host was made anew: {settle}; if not, somebody else answers for it"
    else:
        what = f"its key is not known: {shown}"
        advice = f"compare it on the host's console, then: {settle}"
    raise HostKeyError(target_id, Phase.host_key, what + why, advice)


# -- our own file ------------------------------------------------------------------------------


def trust(path: Path, name: str, keys: Sequence[HostKey]) -> None:
    """Make *keys* the only ones that our own file has for *name*, durably."""
    with _locked(path):
        kept = [line for line in _lines(path) if not _is_about(line, name)]
        kept += [f"{name} {key.kind} {base64.b64encode(key.blob).decode()}" for key in keys]
        _write(path, kept)


def forget(path: Path, name: str) -> list[HostKey]:
    """Take what our own file has for *name* out of it; return the keys."""
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


def _entry(line: str, place: str) -> Entry | None:
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
    return Entry(names, HostKey(words[1], blob), marker, place)


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
