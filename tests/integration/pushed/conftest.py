"""One host per test: a room in the test's folder, and the interpreter of the tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from catena.runtime.push.compiled import compile_bundle
from catena.ssh.push.bundle import bundle
from tests.support.pushed import Bench, end_runs


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as a host has it after some visits: the tests start twice as fast with it."""
    folder = tmp_path_factory.mktemp("bundles")
    path = folder / f"{bundle().sha256}.zip"
    path.write_bytes(bundle().data)
    compile_in_child(path)
    path.unlink()
    return folder


def compile_in_child(path: Path) -> None:
    """Compile without taking this process's priority."""
    child = os.fork()
    if child == 0:
        try:
            compile_bundle(path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture
def bench(tmp_path: Path, compiled: Path) -> Iterator[Bench]:
    found = Bench(tmp_path / "room", sys.executable)
    (found.room / "bundles").mkdir(parents=True)
    found.room.chmod(0o700)
    for path in compiled.iterdir():
        shutil.copy(path, found.room / "bundles")
    yield found
    found.close()
    end_runs(found.room)
