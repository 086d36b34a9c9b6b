"""Commands as a login shell on a host gets them, which sees nothing to expand, whatever it is.

sshd hands one text to the user's login shell: a POSIX one, fish, csh or something odder. Ours is
`/bin/sh -c '…'` with a text of letters, digits, blanks, a few signs and octal numbers only, so
that every shell reads the same; what is inside is decoded on the host by /bin/sh and nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from catena.core.errors import LimitError
from catena.ssh.connect.target import Target

#: Linux takes 128 KiB in one argument; encoding makes some text four times as long.
COMMAND_LIMIT = 96 * 1024

#: What no shell reads as something else, inside single quotes and then double ones.
_COMMON = re.compile(rb"[^A-Za-z0-9_./:=,@+ -]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+-]+\Z")


def quoted(word: str) -> str:
    """Return *word* as one word of a POSIX shell."""
    if _PLAIN.match(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def command(argv: Sequence[str]) -> str:
    """Return *argv* as a command of a POSIX shell that expands nothing in it.

    Raises:
        ValueError: it is empty, or a word has a NUL.
    """
    if not argv or any("\0" in word for word in argv):
        raise ValueError("a command is at least one word, and none with a NUL")
    return " ".join(quoted(word) for word in argv)


def for_login_shell(script: str) -> str:
    """Return the text for sshd that has /bin/sh run *script*, whatever the login shell is.

    Raises:
        LimitError: it is too long for one argument there.
    """
    octal = _COMMON.sub(lambda sign: b"\\0%03o" % sign[0][0], script.encode("utf-8"))
    text = '/bin/sh -c \'eval "$(printf %b "' + octal.decode("ascii") + '")"\''
    if len(text) > COMMAND_LIMIT:
        raise LimitError(f"a command of {len(text)} bytes, limit {COMMAND_LIMIT}")
    return text


def begin_mark(token: str) -> str:
    """Return what begins the line after which what a command prints is its own.

    Its pid may stand behind it.
    """
    return f"catena-begin-{token}"


def password_prompt(token: str) -> str:
    """Return what sudo asks with; nobody else on the host knows it beforehand."""
    return f"catena-password-{token}:"


def wrapped(argv: Sequence[str], target: Target, token: str, *, sudo: bool) -> str:
    """Return the script that runs *argv* on *target*: sudo, umask, PATH and the begin mark.

    Args:
        argv: the program and its arguments.
        target: whose sudo, umask and PATH apply; its fields have passed their grammar.
        token: of this command, hex.
        sudo: whether the target's sudo applies.
    """
    mark = begin_mark(token)
    # A terminal has one stream for both.
    steps = [f"echo {mark} $$"] if target.tty else [f"echo {mark} $$", f"echo {mark} >&2"]
    if target.umask is not None:
        steps.append(f"umask {target.umask:04o}")
    if target.search_path:
        steps.append(f'PATH="{target.search_path}"; export PATH')
    inner = "; ".join([*steps, f"exec {command(argv)}"])
    terminal = "stty raw -echo 2>/dev/null; " if target.tty else ""
    if not (sudo and target.sudo):
        return terminal + inner
    ask = ["-S", "-p", password_prompt(token)] if target.password else ["-n"]
    raised = ["sudo", *ask, "-H", "-u", target.sudo_user, "--", "/bin/sh", "-c", inner]
    return f"{terminal}exec {command(raised)}"
