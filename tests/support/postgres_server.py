"""A PostgreSQL server of the distribution, on a unix socket in a temporary folder."""

from __future__ import annotations

import getpass
import itertools
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from tests.support.debian_roots import require


class PostgresServer:
    """A running server; every test takes an empty database of its own.

    Args:
        folder: of its data and its socket.
        guard: stops the server when its standard input is closed.
    """

    def __init__(self, folder: str, guard: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._guard = guard
        self._numbers = itertools.count(1)

    def url(self, name: str = "postgres") -> str:
        """Return the URL of a database that exists."""
        return f"postgresql+psycopg://test@/{name}?host={self.folder}"

    def new_database(self) -> str:
        """Make an empty database; return its URL."""
        name = f"test{next(self._numbers)}"
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return self.url(name)

    def stop(self) -> None:
        """Stop the server and wait until its folder is removed."""
        self._guard.communicate()


@cache
def server() -> PostgresServer:
    """Return the server of this process, which is started by the first call.

    It runs until this process ends, however that happens: see `_start_guard`. It refuses to run as
    root, so it runs as nobody.
    """
    initdb, control = program("initdb"), program("pg_ctl")
    if initdb is None or control is None:
        require("needs PostgreSQL's programs")
    user = "nobody" if getpass.getuser() == "root" else None
    folder = tempfile.mkdtemp(prefix="pg")
    if user:
        shutil.chown(folder, user)
    data = f"{folder}/data"
    guard = _start_guard(control, folder, user)

    def run(*command: str) -> None:
        done = subprocess.run(
            command, user=user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert done.returncode == 0, done.stderr.decode()

    run(initdb, "-D", data, "-A", "trust", "-U", "test", "--no-sync")
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    run(control, "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start")
    return PostgresServer(folder, guard)


def stop() -> None:
    """Stop the server of this process, if there is one, and wait for its end."""
    if server.cache_info().currsize:
        server().stop()
        server.cache_clear()


def _start_guard(control: str, folder: str, user: str | None) -> subprocess.Popen[bytes]:
    """Start a process that stops the server when its standard input ends.

    Only this process has the other end of that pipe. So the server also stops after an interrupt
    or a kill of this process, which run neither fixtures nor exit handlers.
    """
    # The session of its own keeps Ctrl-C of a terminal away.
    script = 'read -r _; "$0" -D "$1/data" -m immediate -w stop; cd /; rm -rf "$1"'
    return subprocess.Popen(
        ["/bin/sh", "-c", script, control, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        user=user,
        start_new_session=True,
    )


def program(name: str) -> str | None:
    """Return the path of one of PostgreSQL's programs; None if it is not installed."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(newest[0]) if newest else shutil.which(name)
