"""Tasks of worker processes: compile pillar, render reactor files, run calls on the master's host.

Each task is a function of the master's settings and its parameters. Its process may be killed at
any moment, so a task stores nothing that must not be lost.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, NotFoundError
from catena.core.job import JobSpec
from catena.core.records import encode
from catena.pillar.compile import compile_pillar, settings_of
from catena.reactors.reaction import parse
from catena.renderers.pipeline import render
from catena.renderers.source import Source
from catena.runtime.executor import execute
from catena.runtime.master_session import master_session

LOG = logging.getLogger(__name__)


def pillar(settings: MasterSettings, params: Mapping[str, Any]) -> dict[str, Any]:
    """Compile one minion's pillar.

    Args:
        settings: the master's settings.
        params: minion, grains, saltenv, pillarenv, override.

    Returns:
        {"pillar": …, "errors": [texts]}. The errors, here and in the log, quote no line of a
        file, because the line may contain another minion's secret.
    """
    minion, grains = params["minion"], params["grains"]
    context = master_session(settings, minion, grains, settings.pillar_roots).context
    chosen = settings_of(settings, params.get("pillarenv") or "")
    found = compile_pillar(context, chosen, params.get("override") or None)
    for error in found.errors:
        LOG.error("pillar of %s: %s", minion, error)
    return {"pillar": found.pillar, "errors": list(found.errors)}


def roster(settings: MasterSettings, params: Mapping[str, Any]) -> dict[str, Any]:
    """Read the roster; return id -> grains, without addresses and credentials.

    Raises:
        ConfigError: the roster is invalid; the message names file and line.
    """
    from catena.ssh.connect.roster import read

    found = {}
    for name, target in read(settings).items():
        grains = target.minion_opts.get("grains")
        found[name] = dict(grains) if isinstance(grains, Mapping) else {}
    return found


def reactions(settings: MasterSettings, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Render a reactor SLS with an event.

    Args:
        settings: the master's settings.
        params: file (path or salt:// address), tag, data.

    Returns:
        The calls of the file in order, each an encoded reactors.reaction.Reaction.

    Raises:
        NotFoundError: there is no such file.
        RenderError: the file is broken; the message names file and line.
    """
    name = params["file"]
    context = master_session(
        settings, f"{socket.gethostname()}_master", {}, settings.file_roots
    ).context
    path = _reactor_file(context, name)
    source = Source(path.read_text(encoding="utf-8"), name, sls=Path(name).stem)
    variables = {"tag": params["tag"], "data": params["data"]}
    rendered = render(context, source, settings.renderer, variables)
    return [encode(reaction) for reaction in parse(rendered.data, name)]


def _reactor_file(context: Context, name: str) -> Path:
    if name.startswith("salt://"):
        found = context.files.fetch(name[len("salt://") :])
        if found is None:
            raise NotFoundError(f"{name} is not in the file roots")
        return found
    path = Path(name)
    if not path.is_file():
        raise NotFoundError(f"{name}: no such reactor file")
    return path


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
