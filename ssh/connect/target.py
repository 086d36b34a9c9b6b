"""One host of a roster: a typed record with validated fields."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

from catena.core.errors import UsageError
from catena.core.frozen import dataclass, field
from catena.core.ids import MinionId, minion_id

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?\Z")
_ADDRESS_6 = re.compile(r"[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9_.-]{1,15})?\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\$?\Z")
_PATH = re.compile(r"/[A-Za-z0-9_./+@-]{0,1023}\Z")
_PYTHON = re.compile(r"(/[A-Za-z0-9_./+-]{1,254}|python[0-9.]{0,5}|pypy[0-9.]{0,5})\Z")
_SEARCH_PATH = re.compile(r"[A-Za-z0-9_./:+$-]{1,1024}\Z")
_DIRECT = re.compile(
    r"(?:(?P<user>[^@:\s]+)@)?(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:@]+))(?::(?P<port>\d{1,5}))?\Z"
)


class SshTargetError(UsageError):
    """A host of a roster, or one named on the command line, is malformed."""


@dataclass(frozen=True)
class SshTarget:
    """One host. "" and None mean the value of the user's SSH configuration, or the default.

    `repr` hides secrets.
    """

    #: Id for targeting, pillar and results: the key in the roster.
    id: MinionId
    #: Host name, address, or alias of the SSH configuration.
    host: str
    port: Optional[int] = None
    user: str = ""
    password: str = field(default="", repr=False)
    #: Path of a private key on the master; "" also for keys of the SSH agent.
    private_key: str = ""
    private_key_password: str = field(default="", repr=False)
    #: Use only the key given here or in the configuration, no keys of the agent.
    identities_only: bool = False
    #: Run everything as `sudo_user` with sudo, whose password is `password`.
    sudo: bool = False
    sudo_user: str = "root"
    #: Request a terminal, for a sudo that requires one.
    tty: bool = False
    #: Time limit in seconds for each of connect, authenticate and probe; None: `ssh_timeout`.
    timeout_seconds: Optional[int] = None
    #: Python interpreter on the host; "": search for one.
    python: str = ""
    #: Private folder for catena on the host; "": ~/.cache/catena.
    thin_dir: str = ""
    #: umask of processes on the host, or None.
    umask: Optional[int] = None
    #: PATH of processes on the host; `$PATH` in it is the host's own. "": unchanged.
    search_path: str = ""
    #: The minion's configuration for this host, Salt's keys (grains, file_roots …).
    minion_opts: Mapping[str, Any] = field(default_factory=dict)


def host_name(text: str) -> str:
    """Return *text* as a host name, address or alias; raise SshTargetError if it is invalid."""
    if not (_HOST.match(text) or (":" in text and _ADDRESS_6.match(text))):
        raise SshTargetError(
            f"{text[:80]!r} is not a host: letters, digits, '.', '-', '_', or an IPv6 address"
        )
    return text


def user_name(text: str) -> str:
    """Return *text* as a user name; raise SshTargetError if it is invalid."""
    if not _USER.match(text):
        raise SshTargetError(
            f"{text[:80]!r} is not a user: a letter, digit or '_', then up to 63 of letters, "
            "digits, '.', '-', '_', '@'"
        )
    return text


def port_number(value: Any) -> int:
    """Return *value* (a number, or its digits) as a port.

    Raises:
        SshTargetError: it is not 1 to 65535.
    """
    digits = str(value)
    if (
        isinstance(value, bool)
        or not re.match(r"[0-9]{1,5}\Z", digits)
        or not 0 < int(digits) < 65536
    ):
        raise SshTargetError(f"{digits[:80]!r} is not a port: 1 to 65535")
    return int(digits)


def remote_path(text: str) -> str:
    """Return *text* as an absolute path on the host; raise SshTargetError if it is invalid.

    Only letters, digits and `_ . / + @ -` are allowed, and no `..`: it becomes part of commands.
    """
    if not _PATH.match(text) or ".." in text.split("/"):
        raise SshTargetError(
            f"{text[:80]!r} is not a plain absolute path: letters, digits and _ . / + @ - only"
        )
    return text


def python_path(text: str) -> str:
    """Return *text* as an interpreter: an absolute path, or a name such as python3.11."""
    if not _PYTHON.match(text):
        raise SshTargetError(
            f"{text[:80]!r} is not an interpreter: /path/to/python3, or python3.11"
        )
    return text


def search_path(text: str) -> str:
    """Return *text* as a PATH; the only variable that it may contain is `$PATH`."""
    if not _SEARCH_PATH.match(text) or "$" in text.replace("$PATH", ""):
        raise SshTargetError(f"{text[:80]!r} is not a PATH: folders with ':' between, and $PATH")
    return text


def direct_target(text: str) -> Optional[SshTarget]:
    """Return the target of `[user@]host[:port]`, or None if *text* has neither user nor port.

    A plain name means an id of the roster. The id of the returned target is the host.

    Raises:
        SshTargetError: *text* has a user or a port, and a part of it is malformed.
    """
    found = _DIRECT.match(text)
    if found is None or not (found["user"] or found["port"]):
        if "@" in text or text.startswith("-"):
            raise SshTargetError(f"{text[:80]!r} is not of the form user@host, or user@host:port")
        return None
    host = host_name(found["six"] or found["host"])
    return SshTarget(
        # An IPv6 address has colons, which are not allowed in ids.
        minion_id(re.sub(r"[:%]+", "-", host).strip("-") or "host"),
        host,
        port_number(found["port"]) if found["port"] else None,
        user_name(found["user"]) if found["user"] else "",
    )
