"""What goes wrong with a host that is reached over SSH, and in which phase."""

from __future__ import annotations

from enum import StrEnum

from catena.core.errors import UnreachableError


class Phase(StrEnum):
    """Where a push to one host stands; each error names the one in which it happened."""

    connect = "connect"  #: name, address, TCP, SSH's own greeting
    host_key = "host key"
    authenticate = "authenticate"
    session = "session"  #: the login shell, sudo, the first answer of our program
    probe = "probe"  #: which Python, home and temporary folder the host has
    install = "install"  #: our program and the files of a run on their way
    compile = "compile"  #: states rendered here with the help of the host
    start = "start"
    run = "run"
    collect = "collect"
    clean = "clean"


class SshError(UnreachableError):
    """A host could not be reached or used over SSH.

    Args:
        host: id of the target.
        phase: in which it happened.
        what: what was found, one line; text of the host's is cut and made printable here.
        advice: what to do about it, or "".
        waits: whether the same may work later with nobody doing anything (the host boots, its
            network is away), so that a chain waits instead of failing.
    """

    def __init__(
        self, host: str, phase: Phase, what: str, advice: str = "", *, waits: bool = False
    ) -> None:
        line = one_line(what)
        super().__init__(f"{host}: {phase.value}: {line}" + (f"; {advice}" if advice else ""))
        self.host = host
        self.phase = phase
        self.what = line
        self.advice = advice
        self.waits = waits


class HostKeyError(SshError):
    """The key of a host is unknown, changed or revoked: nothing was sent to it."""


class ChannelLostError(SshError):
    """The channel to the program on the host ended; what it started goes on without us.

    `waits` is True: connect again and ask what has become of it.
    """


#: Words of what a host says of its folder -> what to do.
_ROOM_ADVICE = (
    ("no space left", "make room there, or set thin_dir: in the roster"),
    ("disk quota", "make room there, or set thin_dir: in the roster"),
    ("read-only file system", "set thin_dir: in the roster to a folder that can be written"),
    ("permission denied", "set thin_dir: in the roster to a folder that can be written"),
    ("can't be written", "set thin_dir: in the roster to a folder that can be written"),
    ("another user", "set thin_dir: in the roster to a folder of its user's own"),
    ("others may write", "set thin_dir: in the roster to a folder that only its user can write"),
    ("not a folder", "remove it, or set thin_dir: in the roster"),
    ("a link;", "remove it, or set thin_dir: in the roster"),
)


def refused(host: str, what: str) -> SshError:
    """Return the error for a host that says in one line why our program does not work there."""
    found = (advice for words, advice in _ROOM_ADVICE if words in what.lower())
    return SshError(host, Phase.install, what, next(found, ""))


_SHOWN = 300


def one_line(text: str) -> str:
    """Return *text* of a host as one printable line of at most 300 characters."""
    words = " ".join(text.split())
    safe = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in words)
    return safe if len(safe) <= _SHOWN else safe[:_SHOWN] + " …"
