"""A hostile SSH host causes one-line errors and learns no secret."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from catena.core.errors import CatenaError, LimitError, PeerError
from catena.core.framing import NEED, READY, Framer, marker
from catena.ssh.connect.errors import (
    ChannelLostError,
    HostKeyError,
    PushPhase,
    SshError,
)
from tests.integration.ssh.hostile_sshd import Exec, HostileSshd, Script

#: More than any window that a server opens.
LARGE = bytes(8 * 1024 * 1024)


def refused(server: HostileSshd, phase: PushPhase, **fields: object) -> SshError:
    """Return the error of connecting; it came in *phase*, in time, and is one line."""
    begun = time.monotonic()
    with pytest.raises(SshError) as caught:
        server.connect(**fields)
    assert time.monotonic() - begun < 60
    assert caught.value.phase is phase
    assert "\n" not in str(caught.value)
    return caught.value


# -- before SSH is spoken ------------------------------------------------------------------------


def silent(wire: socket.socket) -> None:
    wire.recv(1 << 20)


def silent_after_its_greeting(wire: socket.socket) -> None:
    wire.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    while wire.recv(1 << 20):
        continue


def silent_in_the_key_exchange(wire: socket.socket) -> None:
    """Send what looks like the begin of a long packet."""
    wire.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" + struct.pack(">IB", 3000, 4) + b"\x14")
    while wire.recv(1 << 20):
        continue


def one_byte_at_a_time(wire: socket.socket) -> None:
    """A slow loris: each byte comes before any wait for one is over."""
    wire.settimeout(0.1)
    for sign in b"SSH-2.0-" + b"x" * 100_000:
        wire.sendall(bytes((sign,)))
        with contextlib.suppress(TimeoutError):
            wire.recv(1 << 20)


def endless_line(wire: socket.socket) -> None:
    while True:
        wire.sendall(b"x" * 65536)


def endless_lines(wire: socket.socket) -> None:
    wire.sendall(b"hello\r\n" * 10_000)
    wire.recv(1 << 20)


def another_protocol(wire: socket.socket) -> None:
    wire.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    wire.close()


def gone(wire: socket.socket) -> None:
    wire.close()


@pytest.mark.parametrize(
    "raw",
    [
        silent,
        silent_after_its_greeting,
        silent_in_the_key_exchange,
        one_byte_at_a_time,
        endless_line,
        endless_lines,
        another_protocol,
        gone,
    ],
)
def test_connection_without_a_valid_banner_times_out(
    tmp_path: Path, raw: Callable[[socket.socket], None]
) -> None:
    with HostileSshd(tmp_path, raw=raw) as server:
        error = refused(server, PushPhase.connect, timeout_seconds=2)
    assert f"127.0.0.1:{server.port}" in str(error)


def test_closed_port_is_a_retryable_error(tmp_path: Path) -> None:
    with HostileSshd(tmp_path) as server:
        pass
    assert refused(server, PushPhase.connect).waits


def test_login_dropped_by_maxstartups_is_retried(tmp_path: Path) -> None:
    dropped: list[socket.socket] = []

    def raw(wire: socket.socket) -> bool:
        if len(dropped) == 2:
            return False
        dropped.append(wire)
        wire.close()
        return True

    with HostileSshd(tmp_path, raw=raw) as server:
        server.connect().close()
    assert len(dropped) == 2


# -- its key (attack row 2013-4436) --------------------------------------------------------------


def test_changed_host_key_receives_no_credentials(tmp_path: Path) -> None:
    with HostileSshd(tmp_path) as server:
        server.know(paramiko.ECDSAKey.generate())
        error = refused(server, PushPhase.host_key)
    assert isinstance(error, HostKeyError)
    assert "host key changed" in str(error)
    assert f"catena ssh-key trust 127.0.0.1:{server.port}" in str(error)
    assert server.script.seen == []


def test_unknown_host_receives_no_credentials(tmp_path: Path) -> None:
    with HostileSshd(tmp_path) as server:
        (tmp_path / "known_hosts").write_text("")
        error = refused(server, PushPhase.host_key)
    assert "not known" in str(error)
    assert server.script.seen == []


# -- login ---------------------------------------------------------------------------------------


def test_hanging_login_times_out(tmp_path: Path) -> None:
    hold = threading.Event()

    def hang() -> None:
        hold.wait(100)

    with HostileSshd(tmp_path, Script(on_auth=hang)) as server:
        error = refused(server, PushPhase.authenticate, timeout_seconds=5)
        hold.set()
    assert error.phase is PushPhase.authenticate


def test_reason_of_sshd_for_a_disconnect_during_login_is_reported(tmp_path: Path) -> None:
    """As with PAM's nologin: the right password, a banner, and the end of the connection."""

    def hang_up() -> None:
        (transport,) = server.transports
        banner = paramiko.Message()
        banner.add_byte(paramiko.common.cMSG_USERAUTH_BANNER)
        banner.add_string("System is booting up. Come back later.")
        banner.add_string("")
        transport._send_message(banner)
        transport.close()

    with HostileSshd(tmp_path, Script(on_auth=hang_up)) as server:
        error = refused(server, PushPhase.authenticate)
    assert "not yet" in str(error) and "booting up" in str(error)
    assert error.waits


@pytest.mark.parametrize("place", ["on_channel", "on_exec"])
def test_host_that_hangs_before_a_command_times_out(tmp_path: Path, place: str) -> None:
    hold = threading.Event()

    def hang() -> None:
        hold.wait(100)

    script = Script()
    setattr(script, place, hang)
    with HostileSshd(tmp_path, script) as server:
        connection = server.connect(timeout_seconds=5)
        begun = time.monotonic()
        with pytest.raises(SshError, match="bad: probe: no answer of sshd in 5 s") as caught:
            connection.probe()
        assert time.monotonic() - begun < 60
        hold.set()
        connection.close()
    assert caught.value.waits
    assert "\n" not in str(caught.value)


def test_silent_probe_times_out(tmp_path: Path) -> None:
    with HostileSshd(tmp_path, Script(runs=Exec.begin)) as server:
        connection = server.connect(timeout_seconds=5)
        with pytest.raises(SshError, match=r"bad: probe: no answer of the command in \d+ s"):
            connection.probe()
        connection.close()


def test_host_that_stops_reading_times_out(tmp_path: Path) -> None:
    """In the middle of the program on its way, and of a question."""

    def needs(command: Exec) -> None:
        command.begin()
        nonce = command.line().decode().strip()
        command.channel.sendall(marker(NEED, nonce))

    def hangs(command: Exec) -> None:
        ready(command)

    runs: Callable[[Exec], None]
    for runs, blob in ((needs, b""), (hangs, LARGE)):
        with HostileSshd(tmp_path, Script(runs=runs)) as server:
            connection = server.connect()
            with pytest.raises(SshError, match="no answer of the command") as caught:
                channel = connection.open_channel(["agent"], supply=lambda: LARGE, timeout=5)
                channel.request({"verb": "put"}, blob, timeout=5)
            assert caught.value.waits
            connection.close()


def test_wrong_password_is_reported_without_the_password(tmp_path: Path) -> None:
    with HostileSshd(tmp_path) as server:
        error = refused(server, PushPhase.authenticate, password="hunter2")
    assert "tried password" in str(error)
    assert "hunter2" not in str(error)


def test_password_is_sent_only_to_prompts_without_echo(tmp_path: Path) -> None:
    script = Script(
        methods="keyboard-interactive", questions=[("Say it: ", True), ("PIN: ", False)]
    )
    with HostileSshd(tmp_path, script) as server:
        server.connect().close()
    assert script.seen[1:] == [("answers", ["", "right"])]


def test_host_that_accepts_no_commands_is_reported(tmp_path: Path) -> None:
    with HostileSshd(tmp_path, Script(takes_exec=False)) as server:
        connection = server.connect()
        with pytest.raises(SshError, match="runs no command"):
            connection.run(["true"])
        connection.close()


def test_host_cannot_use_the_ssh_agent_of_the_master(tmp_path: Path) -> None:
    with HostileSshd(tmp_path) as server:
        connection = server.connect()
        with pytest.raises(paramiko.ChannelException):
            server.transports[0].open_forward_agent_channel()
        connection.close()


# -- commands ------------------------------------------------------------------------------------


def failed(tmp_path: Path, runs: Callable[[Exec], None], **fields: object) -> SshError:
    with HostileSshd(tmp_path, Script(runs=runs)) as server:
        connection = server.connect(**fields)
        with pytest.raises(SshError) as caught:
            connection.run(["true"], timeout=5)
        connection.close()
    assert "\n" not in str(caught.value)
    return caught.value


def test_command_that_never_begins_times_out(tmp_path: Path) -> None:
    assert "no answer of the login shell" in str(failed(tmp_path, lambda command: None))


def test_endless_login_noise_is_limited(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        while True:
            command.channel.sendall(b"n" * 32768)

    assert ".bashrc" in str(failed(tmp_path, runs))


def test_message_of_a_host_is_reduced_to_one_printable_line(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        command.channel.sendall_stderr(b"\x1b[2J\x1b]0;owned\x07" + b"y" * 5000 + b"\xff\n")
        command.end(1)

    text = str(failed(tmp_path, runs))
    assert text.isprintable()
    assert len(text) < 600


def test_output_beyond_the_limit_is_dropped_and_reported(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        command.begin()
        for _ in range(100):
            command.channel.sendall(b"o" * 32768)
        command.end()

    with HostileSshd(tmp_path, Script(runs=runs)) as server:
        connection = server.connect()
        done = connection.run(["true"], limit=1000)
        connection.close()
    assert (len(done.stdout), done.cut, done.code) == (1000, True, 0)


@pytest.mark.parametrize(
    ("said", "words", "waits"),
    [
        (b"System is going down.", "going down", True),
        (b"System is booting up. Unprivileged users are not permitted", "booting", True),
        (b"This account is currently not available.", "takes no commands", False),
        (b"sh: 1: sudo: not found", "no sudo", False),
        (b"me is not in the sudoers file.", "does not know this user", False),
        (b"sudo: sorry, you must have a tty to run sudo", "tty: True", False),
        (b"sudo: unknown user nob\nsudo: error initializing audit plugin", "user nob;", False),
        (b"", "code 1", False),
    ],
)
def test_reason_for_a_command_that_did_not_start_is_reported(
    tmp_path: Path, said: bytes, words: str, waits: bool
) -> None:
    def runs(command: Exec) -> None:
        command.channel.sendall_stderr(said)
        command.end(1)

    error = failed(tmp_path, runs)
    assert words in str(error)
    assert error.waits is waits


# -- sudo's password -----------------------------------------------------------------------------


def test_password_is_sent_only_to_the_prompt_of_this_run(tmp_path: Path) -> None:
    got: list[bytes] = []

    def runs(command: Exec) -> None:
        command.channel.settimeout(1)
        command.channel.sendall_stderr(b"[sudo] password for me: ")
        command.channel.sendall_stderr(b"catena-password-00000000000000000000000000000000:")
        try:
            got.append(command.channel.recv(100))
        except TimeoutError:
            got.append(b"")
        command.end(1)

    failed(tmp_path, runs, sudo=True)
    assert got == [b""]


def test_second_password_prompt_means_a_wrong_password(tmp_path: Path) -> None:
    got: list[bytes] = []

    def runs(command: Exec) -> None:
        for _ in range(2):
            command.channel.sendall_stderr(f"catena-password-{command.token}:".encode())
            got.append(command.line())

    assert "refuses the password" in str(failed(tmp_path, runs, sudo=True))
    assert got[0] == b"right\n"


# -- the channel ---------------------------------------------------------------------------------


def asked(tmp_path: Path, runs: Callable[[Exec], None]) -> CatenaError:
    """Return the error of opening a channel and asking once."""
    with HostileSshd(tmp_path, Script(runs=runs)) as server:
        connection = server.connect()
        with pytest.raises(CatenaError) as caught:
            channel = connection.open_channel(["agent"], timeout=5)
            channel.request({"verb": "hello"}, timeout=5)
        connection.close()
    assert "\n" not in str(caught.value)
    return caught.value


def ready(command: Exec) -> Framer:
    command.begin()
    nonce = command.line().decode().strip()
    command.channel.sendall(marker(READY, nonce))
    return Framer(nonce, master=False)


def test_marker_of_another_run_is_ignored(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        command.begin()
        command.channel.sendall(marker(READY, "0" * 64) * 2)

    error = asked(tmp_path, runs)
    assert isinstance(error, SshError)
    assert "no answer" in str(error)


def test_program_that_ends_at_once_is_reported_with_its_output(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        command.begin()
        command.channel.sendall_stderr(b"No space left on device\n")
        command.end(1)

    error = asked(tmp_path, runs)
    assert isinstance(error, ChannelLostError)
    assert "code 1: No space left on device" in str(error)


def test_program_cannot_request_an_unavailable_bundle(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        command.begin()
        nonce = command.line().decode().strip()
        command.channel.sendall(marker("catena-need", nonce))

    assert "not promised" in str(asked(tmp_path, runs))


def test_frame_of_another_run_is_refused(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        ready(command)
        command.channel.sendall(Framer("0" * 64, master=False).encode({"done": True}))

    assert isinstance(asked(tmp_path, runs), PeerError)


def test_two_answers_to_one_question_are_refused(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        framer = ready(command)
        command.channel.sendall(framer.encode({"done": True}) + framer.encode({"done": True}))

    assert "2 answers" in str(asked(tmp_path, runs))


def test_frame_length_above_the_limit_is_refused(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        ready(command)
        command.channel.sendall(struct.pack(">II16s", 0xFFFFFFFF, 1, b"\0" * 16))

    assert isinstance(asked(tmp_path, runs), LimitError)


def test_missing_answer_times_out_and_closes_the_channel(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        ready(command)

    assert "no answer of the command in" in str(asked(tmp_path, runs))


def test_truncated_answer_is_an_error(tmp_path: Path) -> None:
    def runs(command: Exec) -> None:
        framer = ready(command)
        command.channel.sendall(framer.encode({"done": True})[:-3])
        command.end(0)

    error = asked(tmp_path, runs)
    assert isinstance(error, ChannelLostError)
    assert error.waits
