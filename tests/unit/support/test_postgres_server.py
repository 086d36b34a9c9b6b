"""The PostgreSQL server of a test process ends with that process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.debian_roots import require
from tests.support.postgres_server import program
from tests.support.waiting import process_ends, wait_until

_USES_A_SERVER = """
from tests.support import postgres_server

server = postgres_server.server()
assert postgres_server.server() is server
print(server.folder, flush=True)
input()
postgres_server.stop()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    if program("initdb") is None:
        require("needs PostgreSQL's programs")
    with subprocess.Popen(
        [sys.executable, "-c", _USES_A_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        yield running
        running.kill()


def started(process: subprocess.Popen[str]) -> tuple[Path, int]:
    """Return the folder and the process id of the server that *process* has started."""
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    return folder, int((folder / "data/postmaster.pid").read_text().split()[0])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_server_and_its_folder_are_removed_after_a_kill_of_the_test_process(
    process: subprocess.Popen[str], number: signal.Signals
) -> None:
    folder, server = started(process)
    process.send_signal(number)
    assert process_ends(server)
    wait_until(lambda: not folder.exists(), "the removal of the folder")


def test_stop_returns_after_the_end_of_the_server(process: subprocess.Popen[str]) -> None:
    folder, server = started(process)
    process.communicate("\n")
    assert process.returncode == 0
    assert process_ends(server, 0.0)
    assert not folder.exists()
