"""A MariaDB server of the distribution, on a unix socket in a temporary folder."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import tempfile
from functools import cache

from tests.support.debian_roots import require

#: Seconds for the creation of the folder of data, and for the start.
_SECONDS = 120
#: Ends the server when the standard input of this script ends, also after a kill of the tests.
_GUARD = """
"$0" --no-defaults --datadir="$1/data" --tmpdir="$1" --socket="$1/socket" \\
    --pid-file="$1/pid" --skip-networking --innodb-flush-log-at-trx-commit=0 \\
    --innodb-buffer-pool-size=16M $2 >"$1/log" 2>&1 </dev/null &
server=$!
read -r _
kill "$server"
wait "$server"
cd /
rm -rf "$1"
"""


class MariadbServer:
    """A running server whose superuser is root, without a password.

    Args:
        folder: of its data and its socket.
        guard: stops the server when its standard input is closed.
    """

    def __init__(self, folder: str, guard: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.socket = f"{folder}/socket"
        self._guard = guard


@cache
def server() -> MariadbServer:
    """Return the server of this process, which is started by the first call."""
    daemon, admin = shutil.which("mariadbd", path=_PATH), shutil.which("mariadb-admin")
    install = shutil.which("mariadb-install-db")
    if daemon is None or install is None or admin is None:
        require("needs the programs of MariaDB's server (mariadb-server)")
    folder = tempfile.mkdtemp(prefix="maria")
    user = ["--user=nobody"] if getpass.getuser() == "root" else []
    if user:
        shutil.chown(folder, "nobody")
    words = [
        *(install, "--no-defaults", f"--datadir={folder}/data", "--skip-test-db"),
        *(f"--tmpdir={folder}", "--auth-root-authentication-method=normal"),
    ]
    made = subprocess.run([*words, *user], capture_output=True, timeout=_SECONDS)
    assert made.returncode == 0, made.stderr.decode()
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, daemon, folder, *user],
        stdin=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    ping = [admin, "--no-defaults", f"--socket={folder}/socket", "--user=root"]
    found = subprocess.run(
        [*ping, f"--wait={_SECONDS}", "ping"], capture_output=True, timeout=2 * _SECONDS
    )
    assert found.returncode == 0, found.stderr.decode()
    return MariadbServer(folder, guard)


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/usr/libexec"
