"""Versions of the agent: show the running and installed ones, change to another one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, List, Sequence

import catena
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, NotFoundError
from catena.core.plugins import function
from catena.runtime import agent_versions


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of the agent that runs this job."""
    return catena.__version__


@function(reads=True)
def versions(context: Context) -> Dict[str, Any]:
    """Return the running, current and installed versions, and the last upgrade."""
    agent_dir = Path(str(context.opts["agent_dir"]))
    upgrade = agent_versions.read(context.host.cache_dir)
    return {
        "running": catena.__version__,
        "current": agent_versions.current(agent_dir),
        "installed": agent_versions.installed(agent_dir),
        "upgrade": {}
        if upgrade is None
        else {
            "state": upgrade.state.value,
            "version": upgrade.version,
            "previous": upgrade.previous,
            "reason": upgrade.reason,
        },
    }


@function(reads=True)
def verify(context: Context, version: str) -> str:
    """Fail unless the agent that runs this job has *version*; chains use it after an upgrade.

    Raises:
        CommandExecutionError: another version runs.
    """
    if catena.__version__ != version:
        raise CommandExecutionError(f"agent {catena.__version__} runs on this host, not {version}")
    return version


@function()
def install(
    context: Context, source: str, sha256: str = "", dependencies: Sequence[str] = ()
) -> Dict[str, Any]:
    """Install a wheel of catena beside the running agent and change to it after this job.

    Args:
        context: the job's.
        source: salt:// address or local path of the wheel, or a version installed earlier.
        sha256: expected SHA-256 of the wheel, hex; "": not checked.
        dependencies: wheels (salt:// or paths) of dependencies that this host lacks.

    Returns:
        `changes` in the form of a state's result, and a comment that says when the agent
        restarts. If the master does not accept the new agent within two minutes, the previous
        version is restored automatically.

    Raises:
        NotFoundError: there is no such file or version.
        CommandExecutionError: the hash is wrong, or the new agent does not start on this host.
    """
    agent_dir = Path(str(context.opts["agent_dir"]))
    if source in agent_versions.installed(agent_dir):
        wanted = source
    else:
        wheels: List[Path] = [_local(context, item) for item in (source, *dependencies)]
        _check_hash(wheels[0], source, sha256)
        wanted = agent_versions.install(agent_dir, wheels, source.rsplit("/", 1)[-1])
    before = agent_versions.current(agent_dir) or catena.__version__
    if wanted == catena.__version__ and wanted == before:
        return {"changes": {}, "comment": f"agent {wanted} runs already"}
    if context.test:
        return {"changes": {"agent": {"old": before, "new": wanted}}, "comment": "not changed"}
    agent_versions.ask(agent_dir, context.host.cache_dir, wanted)
    return {
        "changes": {"agent": {"old": before, "new": wanted}},
        "comment": "the agent restarts after this job's return",
    }


def _local(context: Context, source: str) -> Path:
    if not source.startswith("salt://"):
        path = Path(source)
        if not path.is_file():
            raise NotFoundError(f"{source}: there is no such file, and no such version installed")
        return path
    found = context.files.fetch(source[len("salt://") :], context.saltenv)
    if found is None:
        raise NotFoundError(f"{source}: the master has no such file")
    return found


def _check_hash(path: Path, source: str, sha256: str) -> None:
    if not sha256:
        return
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1024 * 1024), b""):
            digest.update(block)
    if digest.hexdigest() != sha256.lower():
        raise CommandExecutionError(f"{source}: its SHA-256 is {digest.hexdigest()}")
