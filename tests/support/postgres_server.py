"""A PostgreSQL server of the distribution, on a unix socket in a temporary folder."""

from __future__ import annotations

import getpass
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from tests.support.debian_roots import require


class PostgresServer:
    """A running server; every test takes an empty database of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def url(self, name: str = "postgres") -> str:
        """Return the URL of a database that exists."""
        return f"postgresql+psycopg://test@/{name}?host={self._folder}"

    def new_database(self) -> str:
        """Make an empty database; return its URL."""
        name = f"test{next(self._numbers)}"
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return self.url(name)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server while the block runs. It refuses to run as root, so it runs as nobody."""
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        require("needs PostgreSQL's programs")
    user = "nobody" if getpass.getuser() == "root" else None
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if user:
            shutil.chown(folder, user)

        def run(*command: str) -> None:
            done = subprocess.run(
                command, user=user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            assert done.returncode == 0, done.stderr.decode()

        data = f"{folder}/data"
        run(initdb, "-D", data, "-A", "trust", "-U", "test", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        run(control, "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield PostgresServer(folder)
        finally:
            run(control, "-D", data, "-m", "fast", "stop")


def _program(name: str) -> str | None:
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(newest[0]) if newest else shutil.which(name)
