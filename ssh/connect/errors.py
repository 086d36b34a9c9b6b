"""Errors of hosts over SSH, with the phase in which they happen."""

from __future__ import annotations

from enum import StrEnum

from catena.core.errors import UnreachableError


class PushPhase(StrEnum):
    """The phases of a push to one host; each error names its phase."""

    connect = "connect"  #: name, address, TCP, SSH's own greeting
    host_key = "host key"
    authenticate = "authenticate"
    session = "session"  #: the login shell, sudo, the first reply of catena's program
    probe = "probe"  #: Python, home and temporary folder of the host
    install = "install"  #: transfer of catena's program and of the files of a run
    compile = "compile"  #: rendering of states on the master, with calls to the host
    start = "start"
    run = "run"
    collect = "collect"
    clean = "clean"


class SshError(UnreachableError):
    """A host could not be reached or used over SSH.

    Args:
        host: id of the target.
        phase: in which the error happened.
        what: the cause in one line; text from the host is shortened and made printable.
        advice: what to do about it, or "".
        waits: whether a retry may succeed without a change (the host boots, its network is
            down), so that a chain waits instead of failing.
    """

    def __init__(
        self, host: str, phase: PushPhase, what: str, advice: str = "", *, waits: bool = False
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
    """The channel to the program on the host ended; runs that it started continue.

    `waits` is True: reconnect and ask for the state of the run.
    """


#: By phrase in a host's error about its folder: the advice.
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
    """Return the error for a host that reports in one line why catena's program can't run."""
    found = (advice for words, advice in _ROOM_ADVICE if words in what.lower())
    return SshError(host, PushPhase.install, what, next(found, ""))


_SHOWN = 300


def one_line(text: str) -> str:
    """Return *text* of a host as one printable line of at most 300 characters."""
    words = " ".join(text.split())
    safe = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in words)
    return safe if len(safe) <= _SHOWN else safe[:_SHOWN] + " …"
