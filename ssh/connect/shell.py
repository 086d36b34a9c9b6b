"""Quote commands so that any login shell on a host passes them on unchanged.

sshd passes one text to the user's login shell: a POSIX shell, fish, csh or another one. catena's
text is `/bin/sh -c '…'` and contains only letters, digits, blanks, a few signs and octal numbers,
which all shells parse in the same way. Only /bin/sh decodes the inner text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from catena.core.errors import LimitError
from catena.ssh.connect.target import SshTarget

#: Maximum bytes of a command: Linux allows 128 KiB per argument.
COMMAND_LIMIT = 96 * 1024

#: Characters that need encoding; no shell interprets the others inside single and double quotes.
_COMMON = re.compile(rb"[^A-Za-z0-9_./:=,@+ -]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+-]+\Z")


def quoted(word: str) -> str:
    """Return *word* as one word of a POSIX shell."""
    if _PLAIN.match(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def command(argv: Sequence[str]) -> str:
    """Return *argv* as a command for a POSIX shell, quoted against expansion.

    Raises:
        ValueError: *argv* is empty, or a word contains a NUL.
    """
    if not argv or any("\0" in word for word in argv):
        raise ValueError("a command is at least one word, and none with a NUL")
    return " ".join(quoted(word) for word in argv)


def for_login_shell(script: str) -> str:
    """Return the text for sshd that runs *script* in /bin/sh under any login shell.

    Raises:
        LimitError: the text is too long for one argument.
    """
    octal = _COMMON.sub(lambda sign: b"\\0%03o" % sign[0][0], script.encode("utf-8"))
    text = '/bin/sh -c \'eval "$(printf %b "' + octal.decode("ascii") + '")"\''
    if len(text) > COMMAND_LIMIT:
        raise LimitError(f"a command of {len(text)} bytes, limit {COMMAND_LIMIT}")
    return text


def begin_mark(token: str) -> str:
    """Return the start of the line after which the command's own output begins.

    The command's pid may follow on that line.
    """
    return f"catena-begin-{token}"


def password_prompt(token: str) -> str:
    """Return the prompt for sudo, which other programs on the host can't guess."""
    return f"catena-password-{token}:"


def wrapped(argv: Sequence[str], target: SshTarget, token: str, *, sudo: bool) -> str:
    """Return the script that runs *argv* on *target*: sudo, umask, PATH and the begin mark.

    Args:
        argv: the program and its arguments.
        target: defines sudo, umask and PATH; its fields are validated.
        token: random hex digits of this command.
        sudo: whether the target's sudo applies.
    """
    mark = begin_mark(token)
    # A terminal combines both streams.
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
