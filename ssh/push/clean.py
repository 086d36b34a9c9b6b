"""What lies on a host and is needed no more."""

from __future__ import annotations

from catena.core.errors import CatenaError
from catena.runtime.push.protocol import Clean, TargetError, Trouble
from catena.ssh.connect.errors import Phase, SshError
from catena.ssh.connect.link import Connector, Watch
from catena.ssh.connect.target import Target
from catena.ssh.push.bundle import bundle
from catena.ssh.push.program import Program


def clean(
    target: Target, connect: Connector, watch: Watch, run_seconds: float, everything: bool
) -> dict[str, int] | None:
    """Remove returns that nobody collected, and old files.

    Args:
        target: the host.
        connect: makes a connection to it.
        watch: told of each step.
        run_seconds: how old returns must be.
        everything: whether to leave nothing of catena there.

    Returns:
        How many runs, parts and bundles went; None: everything.

    Raises:
        SshError: the host can't be reached, or what lies there is still needed.
    """
    connection = connect(target)
    try:
        watch(Phase.clean, "")
        program = Program.start(connection, bundle())
        try:
            done = program.clean(Clean(run_seconds))
            if everything:
                _wipe(program, target.id)
        finally:
            program.close()
    except TargetError as error:
        raise SshError(target.id, Phase.clean, str(error)) from None
    finally:
        connection.close()
    if everything:
        return None
    return {"runs": done.runs, "parts": done.parts, "bundles": done.bundles}


def _wipe(program: Program, host: str) -> None:
    try:
        runs = program.hello().runs
        if runs:
            raise TargetError(Trouble.busy, f"run {runs[0].run_id} was not collected")
        program.wipe()
    except SshError:
        raise
    except CatenaError as error:
        raise SshError(host, Phase.clean, f"nothing is wiped: {error}") from None
