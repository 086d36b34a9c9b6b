"""One job on one host: connect, compile here, start there, follow, collect."""

from __future__ import annotations

from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.job import JobReturn, JobSpec
from catena.ssh.link import Connector, Watch
from catena.ssh.target import Target


def run(
    target: Target, connect: Connector, spec: JobSpec, settings: MasterSettings, watch: Watch
) -> JobReturn:
    """Run the function of *spec* on *target* and return what it came to.

    Args:
        target: the host.
        connect: makes a connection to it; called again where one was lost.
        spec: the job: jid, function, arguments, deadline, output limit, user.
        settings: file roots, pillar roots and renderers of this master.
        watch: told of each step.

    Raises:
        SshError: the host could not be reached or used; nothing was run, or it is unknown
            whether it ended (the text says which).
        CatenaError: what was asked makes no sense, or does not compile.
    """
    raise CatenaError(f"{target.id}: {spec.fun}: functions over SSH are not built yet; -r is")
