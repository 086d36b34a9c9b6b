"""Log in to a host with keys and certificates, the SSH agent, or a password, in this order."""

from __future__ import annotations

import base64
import binascii
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from catena.ssh.connect import library
from catena.ssh.connect.client_config import Hop
from catena.ssh.connect.errors import PushPhase, SshError

#: Maximum number of keys to try: sshd allows six attempts by default, one is for a password.
KEY_TRIES = 5
_AGENT_SECONDS = 10.0
KEY_LIMIT = 64 * 1024
#: Messages of pam_nologin and systemd while a host shuts down or boots.
_PASSING = ("going down", "booting up", "not permitted to log in", "unprivileged users")
_INTERACTIVE = "keyboard-interactive"


class _Tries:
    """The login attempts at one host, for the error message."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.allowed: list[str] = []

    def add(self, what: str) -> None:
        self.told.append(what)


def authenticate(transport: Any, hop: Hop, host: str) -> None:
    """Log in as the user of *hop*; afterwards the transport is authenticated.

    Args:
        transport: paramiko's, its host key checked already.
        hop: the user and the credentials.
        host: id of the target, for messages.

    Raises:
        SshError: phase authenticate; `waits` if the host shuts down or boots.
    """
    paramiko = library.paramiko()

    tries = _Tries()
    try:
        if hop.password and not _named_key(hop) and _by_password(transport, hop, tries):
            return
        if _by_keys(transport, hop, tries):
            return
        if hop.password and _named_key(hop) and _by_password(transport, hop, tries):
            return
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _refused(transport, hop, host, tries, error) from None
    raise _refused(transport, hop, host, tries, None)


def _named_key(hop: Hop) -> bool:
    """Return whether a key is configured for this host; it is then tried before the password."""
    return len(hop.identities) == 1


def _by_keys(transport: Any, hop: Hop, tries: _Tries) -> bool:
    paramiko = library.paramiko()

    for number, (name, key) in enumerate(_keys(hop, tries)):
        if number == KEY_TRIES:
            tries.add("more keys were left out")
            break
        try:
            rest = transport.auth_publickey(hop.user, key)
        except paramiko.BadAuthenticationType as error:
            tries.allowed = list(error.allowed_types)
            return False
        except paramiko.AuthenticationException:
            tries.add(name)
            continue
        if not rest:
            return True
        tries.allowed = list(rest)
        # The host accepted the key but requires more (AuthenticationMethods publickey,password).
        return bool(hop.password) and _by_password(transport, hop, tries)
    return False


def _by_password(transport: Any, hop: Hop, tries: _Tries) -> bool:
    """Try both password methods; return False if the host refuses them or the password."""
    paramiko = library.paramiko()

    try:
        rest = transport.auth_password(hop.user, hop.password, fallback=False)
        return not rest
    except paramiko.BadAuthenticationType as error:
        tries.allowed = list(error.allowed_types)
        if _INTERACTIVE not in error.allowed_types:
            return False
    except paramiko.AuthenticationException:
        tries.add("password")
        return False

    def answer(title: str, text: str, prompts: Sequence[tuple[str, bool]]) -> list[str]:
        # Only a prompt without echo can ask for the password; other prompts get no answer.
        return ["" if echo else hop.password for _, echo in prompts]

    try:
        return not transport.auth_interactive(hop.user, answer)
    except paramiko.AuthenticationException:
        tries.add("password")
        return False


def _keys(hop: Hop, tries: _Tries) -> Iterator[tuple[str, Any]]:
    """Yield (name, key): certificates, configured keys, the agent's keys, default files."""
    chosen = _named_key(hop)
    if chosen:
        yield from _files(hop, tries)
    yield from _of_agent(hop, tries)
    if not chosen:
        yield from _files(hop, tries)


def _files(hop: Hop, tries: _Tries) -> Iterator[tuple[str, Any]]:
    for path in hop.identities:
        key = _load(path, hop, tries)
        if key is None:
            continue
        for certificate in hop.certificates:
            with_it = _with_certificate(path, certificate, hop, tries)
            if with_it is not None:
                yield f"{path} with {certificate.name}", with_it
        yield str(path), key


def _load(path: Path, hop: Hop, tries: _Tries) -> Any:
    paramiko = library.paramiko()

    try:
        return _read_key(path, hop)
    except FileNotFoundError:
        if _named_key(hop):
            tries.add(f"{path} is not there")
    except OSError as error:
        tries.add(f"{path}: {error.strerror}")
    except (ValueError, TypeError, paramiko.SSHException, paramiko.UnknownKeyType):
        tries.add(f"{path} {_why_unreadable(path)}")
    return None


def _read_key(path: Path, hop: Hop) -> Any:
    paramiko = library.paramiko()

    if hop.key_password:
        try:
            return paramiko.PKey.from_path(path, hop.key_password.encode())
        except TypeError:
            # The key is not encrypted and needs no password.
            pass
    return paramiko.PKey.from_path(path)


def _why_unreadable(path: Path) -> str:
    if not _is_locked(path.read_bytes()[:KEY_LIMIT]):
        return "is no private key that can be used here"
    return "needs its right password (priv_passwd: in the roster, or the agent)"


def _is_locked(data: bytes) -> bool:
    """Return whether a private key file is encrypted (PROTOCOL.key of OpenSSH, or PEM)."""
    if b"BEGIN OPENSSH PRIVATE KEY" not in data:
        return b"ENCRYPTED" in data
    body = b"".join(line for line in data.splitlines() if b"-----" not in line)
    try:
        head = base64.b64decode(body[:64])
    except binascii.Error:
        return False
    # The header is followed by the length of the cipher's name, and the name.
    return head[19:23] != b"none"


def _with_certificate(path: Path, certificate: Path, hop: Hop, tries: _Tries) -> Any:
    paramiko = library.paramiko()

    key = _load(path, hop, tries)
    try:
        key.load_certificate(str(certificate))
    except (OSError, ValueError, paramiko.SSHException):
        # The certificate belongs to another key; ssh ignores it too.
        return None
    return key


def _of_agent(hop: Hop, tries: _Tries) -> Iterator[tuple[str, Any]]:
    if not hop.agent:
        return
    paramiko = library.paramiko()

    agent = paramiko.agent.AgentSSH()
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(_AGENT_SECONDS)
    try:
        line.connect(hop.agent)
        agent._connect(line)
    except (OSError, paramiko.SSHException) as error:
        line.close()
        tries.add(f"agent at {hop.agent}: {error}")
        return
    try:
        wanted = _public_parts(hop) if hop.identities_only else None
        for key in agent.get_keys():
            if wanted is None or key.asbytes() in wanted:
                yield f"the agent's {key.comment or key.get_name()}", key
    finally:
        agent._close()


def _public_parts(hop: Hop) -> set[bytes]:
    paramiko = library.paramiko()

    found = set()
    for path in hop.identities:
        with suppress(OSError, ValueError, paramiko.SSHException):
            found.add(paramiko.pkey.PublicBlob.from_file(f"{path}.pub").key_blob)
    return found


def _refused(
    transport: Any, hop: Hop, host: str, tries: _Tries, error: Exception | None
) -> SshError:
    banner = _banner(transport)
    if any(word in banner.lower() for word in _PASSING):
        return SshError(host, PushPhase.authenticate, f"not yet: {banner}", waits=True)
    if error is not None and not transport.is_active():
        why = f"the connection ended while logging in as {hop.user}"
        after = f" (tried {', '.join(tries.told)})" if tries.told else ""
        return SshError(host, PushPhase.authenticate, why + after, waits=not tries.told)
    tried = f"tried {', '.join(tries.told)}" if tries.told else "there was no key to try"
    takes = f"; it takes {', '.join(tries.allowed)}" if tries.allowed else ""
    advice = f"put a key into {hop.user}'s authorized_keys, or name one as priv: in the roster"
    if {"password", _INTERACTIVE} & set(tries.allowed):
        advice += ", or correct passwd:" if hop.password else ", or give passwd: (--askpass)"
    return SshError(host, PushPhase.authenticate, f"{hop.user} is refused: {tried}{takes}", advice)


def _banner(transport: Any) -> str:
    # Transport.get_banner() is empty after the connection has ended. But with PAM, sshd sends
    # # "System is booting up" as a banner and disconnects.
    found = getattr(transport.auth_handler, "banner", None)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""
