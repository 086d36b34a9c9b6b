"""Remove files on a host that are no longer needed."""

from __future__ import annotations

from catena.core.errors import CatenaError
from catena.runtime.push.protocol import Clean, ProgramError, Trouble
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.link import Connector, Watch
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.bundle import bundle
from catena.ssh.push.program import Program


def clean(
    target: SshTarget, connect: Connector, watch: Watch, run_seconds: float, everything: bool
) -> dict[str, int] | None:
    """Remove uncollected returns and old files of a host.

    Args:
        target: the host.
        connect: opens a connection to it.
        watch: receives each step.
        run_seconds: minimum age of returns to remove.
        everything: whether to remove everything of catena.

    Returns:
        The number of removed runs, parts and bundles; None: everything.

    Raises:
        SshError: the host can't be reached, or its files are still needed.
    """
    connection = connect(target)
    try:
        watch(PushPhase.clean, "")
        program = Program.start(connection, bundle())
        try:
            done = program.clean(Clean(run_seconds))
            if everything:
                _wipe(program, target.id)
        finally:
            program.close()
    except ProgramError as error:
        raise SshError(target.id, PushPhase.clean, str(error)) from None
    finally:
        connection.close()
    if everything:
        return None
    return {"runs": done.runs, "parts": done.parts, "bundles": done.bundles}


def _wipe(program: Program, host: str) -> None:
    try:
        runs = program.hello().runs
        if runs:
            raise ProgramError(Trouble.busy, f"run {runs[0].run_id} was not collected")
        program.wipe()
    except SshError:
        raise
    except CatenaError as error:
        raise SshError(host, PushPhase.clean, f"nothing is wiped: {error}") from None
