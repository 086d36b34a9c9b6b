from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.minion.start.interpreter import python_argv
from catena.transport.messages import Hello
from tests.integration.minion.harness import Pair
from tests.support.waiting import until, wait_until

#: The promise is 18 MB (design §1); a test machine that runs little else shares less.
IDLE_MB = 20.0
#: Never in the daemon: they are the launcher's and the template's.
ABSENT = ("yaml", "jinja2", "click", "asyncio", "_hashlib", "subprocess", "shutil")


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no Pss")


async def test_idle_agent_needs_little_memory_and_connects_quickly(pair: Pair) -> None:
    async with pair() as (master, agent):
        agent.kill()
        began = time.monotonic()
        agent.launch()
        await until(lambda: len(master.got(Hello)) == 2, "the Hello")
        seconds = time.monotonic() - began
        assert agent.process is not None
        await master.run("20260101000000000001", "test.ping")
        size = pss_mb(agent.process.pid)
        sys.stderr.write(f"\nwelcome after {seconds:.3f} s, PSS {size:.1f} MB\n")
        assert size < IDLE_MB
        hello = master.got(Hello)[-1]
        assert hello.grains["id"] == "m1" and hello.grains["os"]


def test_daemon_imports_only_the_modules_it_needs() -> None:
    code = f"import sys, catena.minion.daemon; print([m for m in {ABSENT!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"


async def test_second_agent_with_the_same_folders_does_not_start(pair: Pair) -> None:
    async with pair() as (master, agent):
        argv = python_argv("catena.minion.launch", agent.configure(log_file="-"))
        done = subprocess.run(argv, capture_output=True, timeout=100, check=False)
        assert done.returncode == 3
        assert b"another agent already uses these folders" in done.stderr
        assert (await master.run("20260101000000000001", "test.ping")).value is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mastre: m\n", "did you mean 'master'"),
        ("id: 'a b'\n", "is not a minion id"),
        ("id: [\n", "minion"),
        ("ping_interval_seconds: 0\n", "below 1"),
    ],
)
def test_invalid_configuration_is_reported_and_nothing_starts(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "minion").write_text(text)
    argv = python_argv("catena.minion.launch", str(tmp_path))
    done = subprocess.run(argv, capture_output=True, timeout=100, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="cl") as folder:
        yield Path(folder)


def test_salt_settings_without_effect_are_listed_once(short: Path) -> None:
    (short / "minion").write_text("id: m1\nmachine_id: x\nmine_interval: 5\nlog_file: '-'\n")
    argv = python_argv("catena.minion.launch", str(short))
    process = subprocess.Popen(argv, stderr=subprocess.PIPE)
    try:
        socket = short / "state" / "minion" / "run" / "minion.sock"
        wait_until(lambda: socket.exists() or process.poll() is not None, "the agent's socket")
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert err.decode().count("mine_interval") == 1, err.decode()
    assert process.returncode == 0, err.decode()
    assert (short / "state" / "minion" / "run").stat().st_mode & 0o777 == 0o700


async def test_token_is_neither_in_the_command_line_nor_in_the_environment(
    pair: Pair,
) -> None:
    async with pair() as (master, agent):
        agent.kill()
        agent.launch(enrol_token="very-secret-token")
        await until(lambda: len(master.got(Hello)) == 2, "the Hello")
        await master.run("20260101000000000001", "test.echo", "x")
        pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
        for pid in pids:
            for name in ("cmdline", "environ"):
                try:
                    data = Path(f"/proc/{pid}/{name}").read_bytes()
                except OSError:
                    continue
                assert b"very-secret-token" not in data, (pid, name)
        assert json.loads((agent.home / "minion").read_text())["enrol_token"]
