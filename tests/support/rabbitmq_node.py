"""A RabbitMQ node of the distribution in a temporary folder, with an epmd of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.support.debian_roots import require

BIN = Path("/usr/lib/rabbitmq/bin")
#: Seconds for the start, in which the node creates its database.
_SECONDS = 180
#: Stops the node when the standard input of this script ends, also after a kill of the tests.
_GUARD = """
"$0/rabbitmq-server" >"$1/out" 2>&1 </dev/null &
server=$!
read -r _
kill "$server"
wait "$server"
epmd -port "$ERL_EPMD_PORT" -kill >/dev/null 2>&1
cd /
rm -rf "$1"
"""


class RabbitmqNode:
    """A running node.

    Args:
        environment: variables with which rabbitmqctl finds the node.
        guard: stops the node when its standard input is closed.
    """

    def __init__(self, environment: dict[str, str], guard: subprocess.Popen[bytes]) -> None:
        self.environment = environment
        self._guard = guard


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@cache
def node() -> RabbitmqNode:
    """Return the node of this process, which is started by the first call."""
    if not (BIN / "rabbitmq-server").is_file() or os.geteuid() != 0:
        require("needs root and RabbitMQ (rabbitmq-server)")
    folder = tempfile.mkdtemp(prefix="rabbit")
    shutil.chown(folder, "rabbitmq", "rabbitmq")
    environment = {
        "ERL_EPMD_PORT": _free_port(),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "catena@localhost",
        "RABBITMQ_NODE_PORT": _free_port(),
        "RABBITMQ_DIST_PORT": _free_port(),
        "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
        "RABBITMQ_LOG_BASE": f"{folder}/log",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
        "RABBITMQ_CONFIG_FILE": f"{folder}/none",
        "RABBITMQ_PID_FILE": f"{folder}/pid",
    }
    # The programs share the cookie in the home of the user that the package made.
    home = pwd.getpwnam("rabbitmq").pw_dir
    everything = {"PATH": "/usr/bin:/bin", "HOME": home, "LC_ALL": "C.UTF-8", **environment}
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, str(BIN), folder],
        stdin=subprocess.PIPE,
        cwd="/",
        user="rabbitmq",
        group="rabbitmq",
        env=everything,
        start_new_session=True,
    )
    waited = subprocess.run(
        [BIN / "rabbitmqctl", "wait", f"{folder}/pid", "--timeout", str(_SECONDS)],
        capture_output=True,
        cwd="/",
        user="rabbitmq",
        group="rabbitmq",
        env=everything,
        timeout=2 * _SECONDS,
    )
    assert waited.returncode == 0, waited.stderr.decode()
    return RabbitmqNode(environment, guard)
