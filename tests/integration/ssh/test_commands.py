"""Commands over SSH: login shells, sudo, limits, and what a process list shows."""

from __future__ import annotations

import os
import select
import sys
import threading
from pathlib import Path

import pytest

from catena.core.framing import NEED, READY
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.raw import run_raw
from tests.support.ssh_server import SshServer
from tests.support.waiting import GROWING_SECONDS

NASTY = ["a b", "$HOME", "`id`", "$(id)", "'", '"', "\\", "!!", "*", "a\nb", "-n", "é", ";"]
SHOW = "import os, sys; os.write(1, b'|'.join(os.fsencode(a) for a in sys.argv[1:]))"
PASSWORD = "se cret$1"

#: The other side of a channel, as small as it can be.
AGENT = f"""
import os, sys
sys.path[:0] = {[str(Path(__file__).parents[3])]!r}
from catena.core.framing import Framer, marker
read, out = sys.stdin.buffer, sys.stdout.buffer
nonce = read.readline().decode().strip()
if "need" in sys.argv:
    out.write(marker({NEED!r}, nonce)); out.flush()
    given = read.read(int(read.readline()))
else:
    given = b""
out.write(b"chatter\\n" + marker({READY!r}, nonce)); out.flush()
framer = Framer(nonce, master=False)
while True:
    data = read.read1(65536)
    if not data:
        break
    for message, blob in framer.feed(data):
        answer = {{**message, "given": len(given), "as": os.environ.get("AS")}}
        out.write(framer.encode(answer, blob[::-1])); out.flush()
"""


@pytest.mark.parametrize("kind", ["plain", "noisy", "traced", "odd"])
def test_arguments_arrive_and_login_noise_is_ignored(server: SshServer, kind: str) -> None:
    connection = server.connect(kind)
    done = connection.run([sys.executable, "-c", SHOW, *NASTY])
    connection.close()
    assert done.stdout == "|".join(NASTY).encode()
    assert done.code == 0
    assert done.stderr == b""


def test_command_has_its_exit_code_streams_and_input(server: SshServer) -> None:
    connection = server.connect()
    done = connection.run(["/bin/sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"in")
    assert done == (7, b"in", b"err\n", False)
    assert connection.run(["/bin/sh", "-c", "kill -9 $$"]).code in (137, 255)
    assert connection.run(["/nowhere/at/all"]).code in (126, 127)
    # More input than any window, to a command that answers while it reads, and one that does not.
    large = b"x" * 5_000_000
    assert connection.run(["cat"], stdin=large, limit=10**7).stdout == large
    assert connection.run(["true"], stdin=large).code == 0
    connection.close()


def test_command_time_out_is_reported_and_the_connection_stays_usable(server: SshServer) -> None:
    connection = server.connect()
    with pytest.raises(SshError, match=r"no answer of the command in \d+ s"):
        connection.run(["sleep", "60"], timeout=5)
    assert connection.run(["echo", "on"]).stdout == b"on\n"
    connection.close()


@pytest.mark.parametrize("kind", ["plain", "sudo"])
def test_abandoned_command_leaves_no_process(server: SshServer, tmp_path: Path, kind: str) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    heard = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    connection = server.connect(kind, sudo=kind == "sudo", password=PASSWORD)
    # One that wants no TERM, and its child, hold the pipe open while they live.
    text = f"trap '' TERM; exec 9>{fifo}; echo >&9; sleep 600 | sleep 600"
    for seconds in GROWING_SECONDS:
        with pytest.raises(SshError, match=r"no answer of the \w+( \w+)? in \d+ s") as caught:
            connection.run(["/bin/sh", "-c", text], timeout=seconds)
        if started := os.read(heard, 10):
            break
    connection.close()
    assert (started, "of the command" in str(caught.value)) == (b"\n", True)
    over = select.poll()
    over.register(heard, select.POLLHUP)
    assert over.poll(60_000)
    os.close(heard)


def test_process_that_keeps_the_streams_open_does_not_block(server: SshServer) -> None:
    connection = server.connect()
    done = connection.run(["/bin/sh", "-c", "sleep 100 & echo done"], timeout=60)
    connection.close()
    assert done.stdout == b"done\n"


def test_umask_and_search_path_of_the_roster_apply(server: SshServer) -> None:
    connection = server.connect(umask=0o027, search_path="$PATH:/opt/very")
    done = connection.run(["/bin/sh", "-c", "umask; echo $PATH"])
    connection.close()
    lines = done.stdout.decode().split()
    assert lines[0] == "0027"
    assert lines[1].endswith(":/opt/very")


@pytest.mark.parametrize(
    ("kind", "words", "waits"),
    [("nologin", "takes no commands", False), ("down", "going down", True)],
)
def test_login_shell_that_runs_no_command_is_reported(
    server: SshServer, kind: str, words: str, waits: bool
) -> None:
    connection = server.connect(kind)
    with pytest.raises(SshError, match=words) as caught:
        connection.probe()
    connection.close()
    assert caught.value.phase is PushPhase.probe
    assert caught.value.waits is waits


@pytest.mark.parametrize("kind", ["plain", "noisy"])
def test_probe_finds_an_interpreter_and_leaves_no_files(
    server: SshServer, kind: str, tmp_path: Path
) -> None:
    room = tmp_path / "room"
    connection = server.connect(kind, thin_dir=str(room), python=sys.executable)
    found = connection.probe()
    connection.close()
    assert found.room == str(room)
    assert found.version[:2] == sys.version_info[:2]
    assert not room.exists()


def test_raw_command_returns_the_same_structure_as_in_salt(server: SshServer) -> None:
    connection = server.connect("noisy")
    found = run_raw(connection, "echo $((1 + 1)); echo b >&2; exit 3")
    connection.close()
    assert found == {"retcode": 3, "stdout": "2\n", "stderr": "b\n"}


# -- sudo ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tty", [False, True])
def test_sudo_gets_the_password_and_the_command_its_input(server: SshServer, tty: bool) -> None:
    connection = server.connect("sudo", sudo=True, sudo_user="app", password=PASSWORD, tty=tty)
    done = connection.run(["/bin/sh", "-c", "echo as $AS; head -c 2"], stdin=b"in")
    connection.close()
    assert done.stdout == b"as app\nin"


def test_password_is_not_sent_to_a_sudo_without_a_prompt(server: SshServer) -> None:
    connection = server.connect("sudo", sudo=True, sudo_user="free", password=PASSWORD)
    assert connection.run(["cat"], stdin=b"mine").stdout == b"mine"
    connection.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"password": ""}, "sudo wants a password.*passwd: in the roster"),
        ({"password": "wrong"}, "sudo refuses the password"),
        ({"password": "x", "sudo_user": "nobody2"}, "sudo knows no such user"),
    ],
)
def test_reason_for_a_sudo_failure_is_reported(
    server: SshServer, fields: dict[str, str], words: str
) -> None:
    connection = server.connect("sudo", sudo=True, **fields)
    with pytest.raises(SshError, match=words) as caught:
        connection.run(["true"])
    connection.close()
    assert "wrong" not in str(caught.value)


def test_missing_sudo_is_reported(server: SshServer) -> None:
    connection = server.connect("plain", sudo=True, search_path="/nowhere")
    # sudo is looked for on the PATH of the login shell; this machine may have one.
    try:
        connection.run(["true"])
    except SshError as error:
        assert "sudo" in str(error)
    connection.close()


def test_secrets_appear_in_no_process_list(server: SshServer) -> None:
    """Attack row X34: every process's words, while a command with a password runs."""
    connection = server.connect("sudo", sudo=True, password=PASSWORD, private_key_password="k3y")
    seen: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        seen.append((path / name).read_bytes())
                    except OSError:
                        continue

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(3):
        connection.run(["/bin/sh", "-c", "head -c 1"], stdin=b"x")
    done.set()
    watcher.join(60)
    connection.close()
    assert seen
    # The test's own source is no process.
    assert not [text for text in seen if PASSWORD.encode() in text]


# -- the channel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "noisy", "odd"])
@pytest.mark.parametrize("need", [False, True])
def test_channel_exchanges_requests_and_answers(server: SshServer, kind: str, need: bool) -> None:
    connection = server.connect(kind)
    argv = [sys.executable, "-c", AGENT, *(["need"] if need else [])]
    channel = connection.open_channel(argv, supply=lambda: b"z" * 3_000_000)
    for number in range(3):
        reply = channel.request({"n": number}, b"ab" * number)
        assert reply.message["n"] == number
        assert reply.message["given"] == (3_000_000 if need else 0)
        assert reply.blob == b"ba" * number
    assert channel.request({}, b"y" * 3_000_000).blob == b"y" * 3_000_000
    channel.close()
    connection.close()


@pytest.mark.parametrize("tty", [False, True])
def test_channel_works_through_sudo(server: SshServer, tty: bool) -> None:
    connection = server.connect("sudo", sudo=True, sudo_user="app", password=PASSWORD, tty=tty)
    channel = connection.open_channel([sys.executable, "-c", AGENT])
    assert channel.request({"n": 1}, bytes(range(256))).blob == bytes(range(256))[::-1]
    assert channel.request({"n": 1}).message["as"] == "app"
    channel.close()
    connection.close()


def test_program_ends_with_its_channel(server: SshServer, tmp_path: Path) -> None:
    connection = server.connect()
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    program = f"{AGENT}\nopen({str(fifo)!r}, 'w').write('ended')\n"
    channel = connection.open_channel([sys.executable, "-c", program])
    channel.close()
    assert fifo.read_text() == "ended"
    connection.close()
