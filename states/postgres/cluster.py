"""postgres_cluster.*: servers of PostgreSQL as Debian's tools make them."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import fields
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.clusters import ClusterOptions
from catena.modules.shared.arguments import split
from catena.states.answers import done, failed, likely_typos, would

_REFUSALS = (CommandExecutionError, UsageError)


@state()
def present(context: Context, /, name: str, version: Any, **arguments: Any) -> StateResult:
    """Make sure that a cluster exists.

    Args:
        context: the call's context.
        name: of the cluster.
        version: of the server.
        arguments: port, datadir (compared); encoding, locale, allow_group_access, data_checksums,
            wal_segsize (for a cluster that is created).
    """
    options, rest = split(ClusterOptions, arguments)
    warnings = likely_typos(ClusterOptions, rest, "postgres_cluster.present")
    try:
        found = _present(context, version, name, options)
    except _REFUSALS as problem:
        found = failed(f"Failed to create cluster {version}/{name}: {problem}")
    return StateResult(found.result, found.changes, found.comment, warnings)


def _present(context: Context, version: Any, name: str, options: ClusterOptions) -> StateResult:
    label = f"{version}/{name}"
    if context.call("postgres.cluster_exists", version, name):
        shown = context.call("postgres.cluster_list", verbose=True)[label]
        other_port = options.port and str(options.port) != str(shown["port"])
        if other_port or (options.datadir and options.datadir != shown["datadir"]):
            return failed(
                f"Cluster {label} has wrong parameters which couldn't be changed on fly."
            )
        return done(f"Cluster {label} is already present")
    if context.test:
        return would(f"Cluster {label} is set to be created")
    words = {one.name: getattr(options, one.name) for one in fields(ClusterOptions)}
    context.call("postgres.cluster_create", version, name, **words)
    return done(f"The cluster {label} has been created", {label: "Present"})


@state()
def absent(context: Context, name: str, version: Any) -> StateResult:
    """Make sure that a cluster does not exist; its server is stopped, its data is removed.

    Args:
        context: the call's context.
        name: of the cluster.
        version: of the server.
    """
    label = f"{version}/{name}"
    try:
        if not context.call("postgres.cluster_exists", version, name):
            return done(f"Cluster {label} is not present, so it cannot be removed")
        if context.test:
            return would(f"Cluster {label} is set to be removed")
        context.call("postgres.cluster_remove", version, name, True)
    except _REFUSALS as problem:
        return failed(f"Failed to remove cluster {label}: {problem}")
    return done(f"Cluster {label} has been removed", {str(name): "Absent"})
