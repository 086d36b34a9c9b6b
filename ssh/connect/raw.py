"""Run a raw command on a host that needs only a shell (`catena ssh -r`)."""

from __future__ import annotations

from typing import Any

from catena.ssh.connect.link import Completed, Connection

OUTPUT_LIMIT = 16 * 1024 * 1024
#: Default time-out in seconds: the default deadline of a job.
DEADLINE_SECONDS = 12 * 3600.0


def run_raw(
    connection: Connection, command: str, timeout: float = DEADLINE_SECONDS
) -> dict[str, Any]:
    """Run *command* with /bin/sh on the host; return Salt's shape: retcode, stdout, stderr.

    Args:
        connection: to the host.
        command: shell text of the caller.
        timeout: seconds until it must have ended.

    Raises:
        SshError: the connection ended, or the time-out has passed.
    """
    argv = ["/bin/sh", "-c", command]
    return shown(connection.run(argv, timeout=timeout, limit=OUTPUT_LIMIT))


def shown(done: Completed) -> dict[str, Any]:
    """Return the result of a command as `salt-ssh -r` shows it."""
    found: dict[str, Any] = {
        "retcode": done.code,
        "stdout": done.stdout.decode("utf-8", "replace"),
        "stderr": done.stderr.decode("utf-8", "replace"),
    }
    return {**found, "truncated": True} if done.cut else found
