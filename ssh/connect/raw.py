"""A command as it stands, on a host that needs nothing but a shell."""

from __future__ import annotations

from typing import Any

from catena.ssh.connect.link import Completed, Connection

OUTPUT_LIMIT = 16 * 1024 * 1024
#: Nobody waits longer than a job may take.
DEADLINE_SECONDS = 12 * 3600.0


def run_raw(
    connection: Connection, command: str, timeout: float = DEADLINE_SECONDS
) -> dict[str, Any]:
    """Have /bin/sh on the host run *command*; return Salt's shape: retcode, stdout, stderr.

    Args:
        connection: to the host.
        command: the text of a shell, the caller's own.
        timeout: seconds until it must have ended.

    Raises:
        SshError: the connection ended, or the time was up.
    """
    argv = ["/bin/sh", "-c", command]
    return shown(connection.run(argv, timeout=timeout, limit=OUTPUT_LIMIT))


def shown(done: Completed) -> dict[str, Any]:
    """Return what a command came to as Salt's salt-ssh -r shows it."""
    found: dict[str, Any] = {
        "retcode": done.code,
        "stdout": done.stdout.decode("utf-8", "replace"),
        "stderr": done.stderr.decode("utf-8", "replace"),
    }
    return {**found, "truncated": True} if done.cut else found
