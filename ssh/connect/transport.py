"""Connect along a route: sockets, SSH's greeting, check of the host key, login.

paramiko gets a socket with TCP_NODELAY; without it each request waits 40 ms for a delayed
acknowledgement. Functions import paramiko on first use, because the import takes 0.1 s.
"""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from catena.ssh.connect import host_keys, library
from catena.ssh.connect.authenticate import authenticate
from catena.ssh.connect.client_config import Hop
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.host_certificate import SUFFIX
from catena.ssh.connect.host_keys import HostKey

KEEPALIVE_SECONDS = 15
VANISHED_SECONDS = 60
#: Maximum bytes that a server may send before its key is checked: greeting, key exchange.
HANDSHAKE_LIMIT = 512 * 1024

#: Disabled algorithms of paramiko: CBC modes, SHA-1 and MD5. (Strict key exchange and the absence
#: of chacha20-poly1305 prevent the Terrapin attack.)
_DISABLED = {
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
}
_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_ECDSA = ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


#: Selects and orders the algorithms to request from the possible ones.
Choose = Callable[[Sequence[str]], Sequence[str]]


class _Wire:
    """A socket that limits the bytes received before the peer is trusted.

    paramiko reads the server's first lines without a limit.

    Args:
        inner: a socket, or a channel of the transport before this one.
        program: process of a ProxyCommand, which ends with the socket.
    """

    def __init__(self, inner: Any, program: subprocess.Popen[bytes] | None = None) -> None:
        self._inner = inner
        self._program = program
        self._left: int | None = HANDSHAKE_LIMIT
        #: paramiko looks at this name of Python's sockets when it ends a transport.
        self._closed = False

    def trust(self) -> None:
        """Remove the limit after the key exchange."""
        self._left = None

    def recv(self, size: int) -> bytes:
        """Return at most *size* bytes; raise EOFError beyond the limit."""
        data: bytes = self._inner.recv(size)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise EOFError("it sends without end")
        return data

    def send(self, data: bytes) -> int:
        """Send a part of *data*; return the number of bytes."""
        sent: int = self._inner.send(data)
        return sent

    def settimeout(self, seconds: float | None) -> None:
        """Set the time-out of further operations."""
        self._inner.settimeout(seconds)

    def getpeername(self) -> Any:
        """Return the address of the other side."""
        return self._inner.getpeername()

    def close(self) -> None:
        """Close the socket and end its program. Never raises."""
        self._closed = True
        self._inner.close()
        program, self._program = self._program, None
        if program is not None:
            program.terminate()
            try:
                program.wait(2.0)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


class JumpTransports:
    """Nested transports: those of jump hosts, then the target's."""

    def __init__(self) -> None:
        self._transports: list[Any] = []

    @property
    def transport(self) -> Any:
        """The innermost transport; None if there is none."""
        return self._transports[-1] if self._transports else None

    def add(self, transport: Any) -> None:
        """Add a transport inside the last one."""
        self._transports.append(transport)

    def close(self) -> None:
        """Close all transports, the target's first. Never raises."""
        for transport in reversed(self._transports):
            transport.close()
            # A transport that ended on its own does not close its socket.
            transport.sock.close()


def connect(route: Sequence[Hop], host: str, trust: str, seconds: float) -> JumpTransports:
    """Connect along *route*, check each host key and log in.

    Args:
        route: jump hosts, then the target.
        host: id of the target, for messages.
        trust: the command that accepts an unknown key, without the host.
        seconds: time limit for each hop to connect, and again to log in.

    Raises:
        SshError: with its phase; `waits` if a later retry may succeed.
    """
    line = JumpTransports()
    try:
        for hop in route:
            last = hop is route[-1]
            label = host if last else f"{host} (through {hop.host})"
            entries = host_keys.read(hop.known_hosts)
            known = host_keys.kinds_known(entries, hop.key_name)
            vouched = bool(host_keys.authorities(entries, hop.key_name))
            transport = _greeted(hop, label, line.transport, seconds, _wanted(known, vouched))
            line.add(transport)
            settled = f"{trust} {shlex.quote(hop.asked)}"
            shown, certificate = _key_of(transport), _certificate_of(transport)
            host_keys.check(entries, label, settled, hop.key_name, shown, certificate)
            transport.auth_timeout = seconds
            authenticate(transport, hop, label)
            transport.set_keepalive(KEEPALIVE_SECONDS)
    except BaseException:
        line.close()
        raise
    return line


def shown_keys(route: Sequence[Hop], host: str, trust: str, seconds: float) -> list[HostKey]:
    """Return the host keys of the last host of *route*, one of each type, without a login.

    Arguments are those of `connect`.

    Raises:
        SshError: the host can't be reached, or a jump host can't be used.
    """
    found: list[HostKey] = []
    for kinds in (("ssh-ed25519",), _ECDSA, _RSA):
        line = connect(route[:-1], host, trust, seconds)
        try:
            line.add(_greeted(route[-1], host, line.transport, seconds, _exactly(kinds)))
            found.append(_key_of(line.transport))
        except _NoCommonKeyError:
            continue
        finally:
            line.close()
    return found


class CutOffError(SshError):
    """The host closed the connection before its greeting: too many logins, booting, or down."""


class _NoCommonKeyError(SshError):
    """The host has no key of the requested types, or no common cipher."""


def _greeted(hop: Hop, host: str, via: Any, seconds: float, choose: Choose) -> Any:
    """Return a transport after the key exchange with *hop*; its host key is not checked yet.

    Args:
        hop: the host to connect to.
        host: id of the target, for messages.
        via: transport of the jump host before it, or None.
        seconds: time limit for the key exchange.
        choose: selects the host key algorithms from the possible ones.
    """
    paramiko = library.paramiko()
    wire = _socket(hop, host, via, seconds)
    transport = None
    try:
        transport = paramiko.Transport(wire, disabled_algorithms=_DISABLED)
        transport.banner_timeout = transport.handshake_timeout = seconds
        transport.channel_timeout = seconds
        options = transport.get_security_options()
        options.key_types = tuple(choose(options.key_types))
        transport.start_client(timeout=seconds)
        if not transport.initial_kex_done:
            # paramiko returns without an error after the time-out.
            raise TimeoutError(f"no answer in {seconds:g} s")
    except (paramiko.SSHException, EOFError, OSError) as error:
        _close(transport, wire)
        if isinstance(error, paramiko.IncompatiblePeer):
            advice = "it offers only algorithms that are no longer safe"
            raise _NoCommonKeyError(host, PushPhase.connect, str(error), advice) from None
        raise _no_greeting(hop, host, error) from None
    wire.trust()
    return transport


def _close(transport: Any, wire: _Wire) -> None:
    if transport is not None:
        transport.close()
    wire.close()


#: Phrases of paramiko's errors for a host that disconnected or was silent before its greeting.
_CUT_OFF = ("banner", "existing session", "negotiation", "timeout", "timed out", "without end")


#: Phrases of errors for a connection that the peer closed.
_CLOSED = ("reset by peer", "broken pipe", "negotiation failed")

#: Prefixes of paramiko's and Python's error texts, which are removed.
_PARAMIKO = re.compile(r"Error reading SSH protocol banner|\[Errno \d+\] ")


def _no_greeting(hop: Hop, host: str, error: BaseException) -> SshError:
    text = _PARAMIKO.sub("", str(error))
    lost = isinstance(error, (EOFError, OSError)) or any(w in str(error).lower() for w in _CUT_OFF)
    what = f"no SSH greeting from {hop.host}:{hop.port}: {text or 'it closed the connection'}"
    if any(word in str(error).lower() for word in _CLOSED) or not text:
        return CutOffError(host, PushPhase.connect, what, waits=True)
    advice = "" if lost else "is that port sshd's?"
    return SshError(host, PushPhase.connect, what, advice, waits=lost)


def _exactly(names: Sequence[str]) -> Choose:
    return lambda possible: names


def _wanted(kinds: Sequence[str], vouched: bool) -> Choose:
    """Return a choice that puts known key types first, so that the host shows a known key.

    If known_hosts has an authority for the host, certificates come first.
    """
    known = [name for kind in kinds for name in (_RSA if kind == "ssh-rsa" else (kind,))]

    def choose(possible: Sequence[str]) -> Sequence[str]:
        plain = [name for name in possible if not name.endswith(SUFFIX)]
        wanted = [name for name in known if name in plain]
        rest = [name for name in plain if name not in wanted]
        certified = [f"{name}{SUFFIX}" for name in plain] if vouched else []
        return [*certified, *wanted, *rest]

    return choose


def _key_of(transport: Any) -> HostKey:
    key = transport.get_remote_server_key()
    return HostKey(key.get_name(), key.asbytes())


def _certificate_of(transport: Any) -> bytes:
    """Return the certificate that came with the host's key, or b""."""
    found = transport.get_remote_server_key().public_blob
    return bytes(found.key_blob) if found is not None else b""


# -- sockets -----------------------------------------------------------------------------------


def _socket(hop: Hop, host: str, via: Any, seconds: float) -> _Wire:
    if via is not None:
        return _Wire(_through(via, hop, host, seconds))
    if hop.proxy_command:
        return _program(hop, host)
    return _Wire(_tcp(hop, host, seconds))


def _tcp(hop: Hop, host: str, seconds: float) -> socket.socket:
    where = f"{hop.host}:{hop.port}"
    # Bytes avoid the slow IDNA encoding, which Python applies to every text.
    name = hop.host.encode("ascii") if hop.host.isascii() else hop.host
    try:
        addresses = socket.getaddrinfo(name, hop.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        advice = "set host: in the roster, or HostName in the SSH configuration"
        # An unreachable resolver gives EAI_AGAIN.
        waits = getattr(error, "errno", None) == socket.EAI_AGAIN
        raise SshError(
            host, PushPhase.connect, f"no address of {hop.host}: {why}", advice, waits=waits
        ) from None
    deadline = time.monotonic() + seconds
    why = "no address"
    for family, kind, protocol, _, address in addresses:
        wire = socket.socket(family, kind, protocol)
        wire.settimeout(max(deadline - time.monotonic(), 0.1))
        try:
            wire.connect(address)
        except TimeoutError:
            wire.close()
            why = f"no answer in {seconds:g} s"
        except OSError as error:
            wire.close()
            why = error.strerror or str(error)
        else:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # If the host disappears, the kernel ends the connection after unacknowledged
            # keepalives.
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_SECONDS * 1000)
            return wire
    raise SshError(host, PushPhase.connect, f"{where}: {why}", waits=True)


def _through(transport: Any, hop: Hop, host: str, seconds: float) -> Any:
    paramiko = library.paramiko()
    where = (hop.host, hop.port)
    try:
        return transport.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=seconds)
    except (paramiko.SSHException, EOFError, OSError) as error:
        what = f"the jump host does not connect to {hop.host}:{hop.port}: {error}"
        raise SshError(host, PushPhase.connect, what, waits=True) from None


def _program(hop: Hop, host: str) -> _Wire:
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            list(hop.proxy_command), stdin=theirs.fileno(), stdout=theirs.fileno()
        )
    except OSError as error:
        ours.close()
        what = f"ProxyCommand {hop.proxy_command[0]}: {error.strerror}"
        raise SshError(host, PushPhase.connect, what) from None
    finally:
        theirs.close()
    return _Wire(ours, process)
