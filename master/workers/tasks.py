"""What worker processes do but reactor files: compile pillar, run calls on the master's host.

Each is a plain function of the master's settings and its parameters; it runs in a process that may
be ended at any moment and keeps nothing that matters.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.errors import CommandExecutionError
from catena.core.job import JobSpec
from catena.pillar.compile import compile_pillar, settings_of
from catena.runtime.executor import execute
from catena.runtime.master_session import master_session

LOG = logging.getLogger(__name__)


def pillar(settings: MasterSettings, params: Mapping[str, Any]) -> dict[str, Any]:
    """Compile one minion's pillar.

    Args:
        settings: the master's.
        params: minion, grains, saltenv, pillarenv, override.

    Returns:
        {"pillar": …, "errors": [texts]}; errors show no line of a file, since another minion's
        secret may stand beside the fault. The log is no place for it either.
    """
    minion, grains = params["minion"], params["grains"]
    context = master_session(settings, minion, grains, settings.pillar_roots).context
    chosen = settings_of(settings, params.get("pillarenv") or "")
    found = compile_pillar(context, chosen, params.get("override") or None)
    for error in found.errors:
        LOG.error("pillar of %s: %s", minion, error)
    return {"pillar": found.pillar, "errors": list(found.errors)}


def roster(settings: MasterSettings, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read the roster: id -> the grains that it gives. How hosts are reached is not told.

    Raises:
        ConfigError: it can't be used; names file and line.
    """
    from catena.ssh.roster import read

    found = {}
    for name, target in read(settings).items():
        grains = target.minion_opts.get("grains")
        found[name] = dict(grains) if isinstance(grains, Mapping) else {}
    return found


def call(settings: MasterSettings, params: Mapping[str, Any]) -> Any:
    """Run an execution function on the master's own host (`caller` reactions).

    Raises:
        CommandExecutionError: the function failed.
    """
    session = master_session(settings, f"{socket.gethostname()}_master", None, settings.file_roots)
    spec = JobSpec("", params["fun"], tuple(params["args"]), dict(params["kwargs"]))
    outcome = execute(session, spec)
    if not outcome.ret.success:
        raise CommandExecutionError(f"{params['fun']}: {outcome.ret.value}")
    return outcome.ret.value
