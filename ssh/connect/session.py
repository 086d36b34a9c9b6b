"""One command on a host: output after the begin mark, sudo's password prompt, exit code."""

from __future__ import annotations

import re
import secrets
import select
import threading
import time
from contextlib import suppress
from typing import Any

from catena.core.errors import CatenaError
from catena.ssh.connect import library
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.connect.shell import (
    begin_mark,
    for_login_shell,
    password_prompt,
    wrapped,
)
from catena.ssh.connect.target import SshTarget

#: Maximum bytes that a login shell may print before the command starts.
NOISE_LIMIT = 256 * 1024
_PIECE = 256 * 1024
#: Seconds to wait for the exit code after the streams have ended, and for streams that another
#: process keeps open after the command has ended.
_LAST_SECONDS = 2.0
_KILL_SECONDS = 4.0
#: Ends the process group of $1, with one second between SIGTERM and SIGKILL.
_KILL = """
read -r line < /proc/$1/stat || exit 0
set -- ${line##*) }
kill -s TERM -- -$3
for turn in 1 2 3 4 5; do kill -s 0 -- -$3 || exit 0; sleep 0.2; done
kill -s KILL -- -$3
"""


class RemoteCommand:
    """One command, started by the constructor.

    Args:
        transport: paramiko's, authenticated.
        target: defines sudo, terminal, umask and PATH.
        argv: the program and its arguments.
        phase: the phase in errors.
        sudo: whether the target's sudo applies.
        seconds: time limit for the host to accept the command.

    Raises:
        SshError: the host does not accept the command.
        LimitError: the command is too long.
    """

    def __init__(
        self,
        transport: Any,
        target: SshTarget,
        argv: list[str],
        *,
        phase: PushPhase,
        sudo: bool = True,
        seconds: float = 30.0,
    ) -> None:
        self._transport = transport
        self._target = target
        self._phase = phase
        self._since = time.monotonic()
        token = secrets.token_hex(16)
        text = for_login_shell(wrapped(argv, target, token, sudo=sudo))
        mark = begin_mark(token).encode("ascii")
        self._sudo = sudo
        self._out, self._err = _Stream(mark), _Stream(mark)
        self._prompt = password_prompt(token).encode("ascii")
        self._asked = False
        #: Whether sudo may prompt; then nothing may be sent before the command starts.
        self.may_ask = bool(sudo and target.sudo and target.password)
        self._channel = _opened(transport, target, phase, text, seconds)
        self._poll = select.poll()
        self._poll.register(self._channel.fileno(), select.POLLIN)
        self._early: list[tuple[bytes, bytes]] = []

    def await_begin(self, deadline: float) -> None:
        """Wait until the command itself runs, after login shell and sudo.

        Raises:
            SshError: the command never started; the text has the host's output.
        """
        while not self._out.began:
            pieces = self._next(deadline)
            if pieces is None:
                raise self._never_began()
            self._early.append(pieces)

    def receive(self, deadline: float) -> tuple[bytes, bytes]:
        """Return the next bytes of stdout and stderr; both are empty when the command has ended.

        Raises:
            SshError: *deadline* (of time.monotonic) has passed, or the command never started.
            ChannelLostError: the connection was lost.
        """
        while True:
            pieces = self._early.pop(0) if self._early else self._next(deadline)
            if pieces is None:
                if not self._out.began:
                    raise self._never_began()
                return b"", b""
            if any(pieces):
                return pieces

    def send(self, data: bytes, deadline: float) -> bool:
        """Write all of *data* to the command's stdin.

        Returns:
            False if the command reads no more input; its output tells the result.

        Raises:
            SshError: the command does not read the data in time.
        """
        try:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.1))
            self._channel.sendall(data)
        except TimeoutError:
            raise self._late() from None
        except (OSError, EOFError):
            return False
        return True

    def end_input(self) -> None:
        """Close the command's stdin."""
        try:
            self._channel.shutdown_write()
        except (OSError, EOFError):
            # The command has already ended; reading its streams shows that.
            return

    def exit_code(self) -> int:
        """Return the exit code of a command whose streams have ended; 255 if there is none.

        Raises:
            ChannelLostError: the connection was lost; the exit code is unknown.
        """
        self._channel.status_event.wait(_LAST_SECONDS)
        code = int(self._channel.exit_status)
        if code >= 0:
            return code
        if not self._transport.is_active():
            raise self._lost("the connection ended before the command did")
        return 255

    def tail(self) -> str:
        """Return the last line of stderr, including output of the login shell."""
        lines = bytes(self._err.tail).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """Close the session; the command's input and output are closed. Never raises."""
        self._channel.close()

    def abort(self) -> None:
        """Kill the command and its children as far as its user may. Never raises.

        A command without I/O would not notice that the session was closed.
        """
        with suppress(CatenaError, OSError, EOFError):
            if self._transport.is_active() and not self._channel.exit_status_ready():
                if self._out.pid:
                    self._kill(self._out.pid)
                else:
                    self._signal("KILL")
        self.close()

    # -- internals --

    def _kill(self, pid: str) -> None:
        """Kill the command's process group by another command."""
        argv = ["/bin/sh", "-c", _KILL, "sh", pid]
        killer = RemoteCommand(
            self._transport, self._target, argv, phase=self._phase, sudo=self._sudo, seconds=5.0
        )
        deadline = time.monotonic() + _KILL_SECONDS
        try:
            while any(killer.receive(deadline)):
                continue
        finally:
            killer.close()

    def _signal(self, name: str) -> None:
        """Ask sshd to signal the login shell (RFC 4254, 6.9); sshd refuses this for root.

        paramiko has no method for it.
        """
        paramiko = library.paramiko()
        message = paramiko.Message()
        message.add_byte(bytes((98,)))  # SSH_MSG_CHANNEL_REQUEST
        message.add_int(self._channel.remote_chanid)
        message.add_string("signal")
        message.add_boolean(False)
        message.add_string(name)
        self._transport._send_user_message(message)

    def _next(self, deadline: float) -> tuple[bytes, bytes] | None:
        """Return the output after the mark; (b"", b"") for the mark itself, None at the end."""
        while True:
            began = self._out.began
            pieces = self._drain()
            if any(pieces) or self._out.began != began:
                return pieces
            if self._ended():
                return None
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._late()
            over = self._channel.exit_status_ready()
            # poll() does not report an exit code while another process keeps the streams open.
            seen = self._poll.poll(min(left, _LAST_SECONDS) * 1000)
            if over and not seen:
                return None

    def _ended(self) -> bool:
        channel = self._channel
        if channel.recv_ready() or channel.recv_stderr_ready():
            return False
        return bool(channel.closed or channel.eof_received or not self._transport.is_active())

    def _drain(self) -> tuple[bytes, bytes]:
        channel = self._channel
        out = channel.recv(_PIECE) if channel.recv_ready() else b""
        err = channel.recv_stderr(_PIECE) if channel.recv_stderr_ready() else b""
        pieces = self._out.feed(out), self._err.feed(err)
        if not self._out.began:
            self._before()
        return pieces

    def _before(self) -> None:
        """Handle output before the mark: sudo's prompt, and endless output."""
        for stream in (self._err, self._out):
            if stream.take(self._prompt):
                if self._asked:
                    raise self._error("sudo refuses the password", _PASSWORD)
                self._asked = True
                word = self._target.password.encode("utf-8") + b"\n"
                self.send(word, time.monotonic() + _LAST_SECONDS)
            if len(stream.before) > NOISE_LIMIT:
                what = f"it prints more than {NOISE_LIMIT // 1024} KiB before a command begins"
                raise self._error(what, "look at its .bashrc or .profile")

    def _never_began(self) -> SshError:
        if not self._transport.is_active():
            return self._lost("the connection ended before the command began")
        code = self.exit_code()
        said = bytes(self._err.before or self._out.before).decode("utf-8", "replace")
        return why_not(self._target, self._phase, code, said)

    def _late(self) -> SshError:
        at = "the command" if self._out.began else "the login shell"
        said = self.tail()
        seconds = max(1, round(time.monotonic() - self._since))
        what = f"no answer of {at} in {seconds} s" + (f"; it said: {said}" if said else "")
        return self._error(what, "" if self._out.began else _SLOW, waits=True)

    def _lost(self, what: str) -> ChannelLostError:
        return ChannelLostError(self._target.id, self._phase, what, waits=True)

    def _error(self, what: str, advice: str, waits: bool = False) -> SshError:
        return SshError(self._target.id, self._phase, what, advice, waits=waits)


class _Stream:
    """One of stdout and stderr: output of the login shell, the mark, the command's output."""

    _TAIL = 4096

    def __init__(self, mark: bytes) -> None:
        # A shell with tracing (set -x) prints more on that line.
        self._mark = re.compile(re.escape(mark) + rb" ?(\d{0,10})\r?\n")
        #: Process id of the command on the host.
        self.pid = ""
        self.before = bytearray()
        self.tail = bytearray()
        self.began = False

    def feed(self, data: bytes) -> bytes:
        """Process *data*; return the command's own output in it."""
        self.tail = (self.tail + data)[-self._TAIL :]
        if self.began or not data:
            return data
        self.before += data
        found = self._mark.search(self.before)
        if found is None:
            return b""
        self.pid = found[1].decode("ascii")
        at, end = found.span()
        del found  # the match object references the buffer
        self.began = True
        own = bytes(self.before[end:])
        del self.before[at:]
        self.tail = bytearray(own[-self._TAIL :])
        return own

    def take(self, text: bytes) -> bool:
        """Remove *text* from the output before the mark; return whether it was there."""
        at = self.before.find(text)
        if at < 0:
            return False
        del self.before[: at + len(text)]
        return True


class _TooLateError(Exception):
    """A reply did not arrive in time."""


class _Patience(threading.Event):
    """An event whose `wait` has a time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set; raise _TooLateError after the time limit."""
        if not super().wait(self._seconds if timeout is None else timeout):
            raise _TooLateError()
        return True


def _opened(transport: Any, target: SshTarget, phase: PushPhase, text: str, seconds: float) -> Any:
    paramiko = library.paramiko()

    try:
        channel = transport.open_session(timeout=seconds)
        # paramiko's own event waits without a limit.
        channel.event = _Patience(seconds)
        if target.tty:
            channel.get_pty("dumb", 200, 50)
        channel.exec_command(text)
    except (paramiko.SSHException, EOFError, OSError, _TooLateError) as error:
        if not transport.is_active():
            what = f"the connection ended: {error}" if str(error) else "the connection ended"
            raise ChannelLostError(target.id, phase, what, waits=True) from None
        if isinstance(error, _TooLateError) or "timeout" in str(error).lower():
            what = f"no answer of sshd in {seconds:g} s when it was to run a command"
            raise SshError(target.id, phase, what, waits=True) from None
        what = f"the host runs no command: {error}"
        raise SshError(target.id, phase, what, "does sshd force another, or none?") from None
    return channel


_SUDOERS = "let this user run commands by sudo there"
_PASSWORD = "correct passwd: of the roster"
_SHELL = "give the user a shell"
_SLOW = "look at its .bashrc or .profile, or raise timeout: in the roster"

#: By output of a host that did not run the command: (meaning, advice, whether a retry may help).
_SAYINGS = (
    ("going down", "the host is going down", "", True),
    ("booting up", "the host is still booting", "", True),
    ("a password is required", "sudo wants a password", "give passwd: in the roster", False),
    ("a terminal is required", "sudo wants a terminal", "set tty: True in the roster", False),
    ("must have a tty", "sudo wants a terminal", "set tty: True in the roster", False),
    ("not in the sudoers", "sudo does not know this user", _SUDOERS, False),
    ("not allowed to execute", "sudo does not let this user run commands", _SUDOERS, False),
    ("may not run sudo", "sudo does not let this user run commands", _SUDOERS, False),
    ("incorrect password", "sudo refuses the password", _PASSWORD, False),
    ("sudo: not found", "there is no sudo", "install it, or log in as root", False),
    ("sudo: command not found", "there is no sudo", "install it, or log in as root", False),
    ("unknown user", "sudo knows no such user", "correct sudo_user: of the roster", False),
    ("not available", "its login shell takes no commands", _SHELL, False),
    ("command not allowed", "its login shell takes no commands", _SHELL, False),
)


def why_not(target: SshTarget, phase: PushPhase, code: int, said: str) -> SshError:
    """Return the error for a command that never started.

    Args:
        target: the host.
        phase: in which it should have run.
        code: exit code of the login shell.
        said: the output, mostly of stderr.
    """
    lines = said.strip().splitlines()
    last = lines[-1] if lines else ""
    for words, meaning, advice, passes in _SAYINGS:
        for line in lines:
            if words in line.lower():
                return SshError(target.id, phase, f"{meaning}: {line}", advice, waits=passes)
    what = f"its login shell ended with code {code} before the command began"
    tail = f": {last}" if last else " and said nothing"
    return SshError(target.id, phase, what + tail, "can this user log in by hand?")
