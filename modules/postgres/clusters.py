"""postgres.cluster_* (Debian's pg_createcluster) and datadir_* (initdb)."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.postgres.psql import OWNER, find
from catena.modules.shared import programs
from catena.modules.shared.arguments import take, truth
from catena.modules.shared.command.options import RunOptions, find_identity
from catena.modules.shared.command.run import run

_PACKAGE = "postgresql-common"
_SERVER = "postgresql (Debian) or postgresql-server (Fedora, SUSE)"
#: Seconds for the creation of a cluster, which waits for the disk.
_DEADLINE = 300
_VERSION = re.compile(r"\d+(\.\d+)?\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def _checked(version: Any, name: Any) -> List[str]:
    """Return version and name of a cluster as arguments.

    Raises:
        UsageError: they can't be any.
    """
    if not _VERSION.match(str(version)):
        raise UsageError(f"version: {str(version)[:40]!r} is no version of PostgreSQL")
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a cluster")
    return [str(version), str(name)]


@function(reads=True)
def cluster_list(context: Context, verbose: bool = False) -> Union[List[str], Dict[str, Any]]:
    """Return the clusters of this host, each as "15/main".

    Args:
        context: the call's context.
        verbose: return a dict with port, status, user, datadir and log of each.

    Raises:
        CommandExecutionError: pg_lsclusters is not available, or fails.
    """
    found: Dict[str, Any] = {}
    for line in programs.need(context, ["pg_lsclusters", "-h"], _PACKAGE).splitlines():
        version, name, port, status, user, datadir, log = (*line.split(), *[""] * 7)[:7]
        found[f"{version}/{name}"] = {
            "port": int(port) if port.isdigit() else port,
            "status": status,
            "user": user,
            "datadir": datadir,
            "log": log,
        }
    return found if truth(verbose) else sorted(found)


@function(reads=True)
def cluster_exists(context: Context, version: Any, name: str = "main") -> bool:
    """Return whether this host has a cluster."""
    return "/".join(_checked(version, name)) in cluster_list(context)


@dataclass(frozen=True)
class ClusterOptions:
    """Attributes of a new cluster, with Salt's names."""

    port: Any = None
    locale: Optional[str] = None
    encoding: Optional[str] = None
    datadir: Optional[str] = None
    allow_group_access: Optional[bool] = None
    data_checksums: Optional[bool] = None
    wal_segsize: Any = None


@function(fails="bool")
def cluster_create(
    context: Context, /, version: Any, name: str = "main", **arguments: Any
) -> bool:
    """Create a cluster; it is not started.

    Args:
        context: the call's context.
        version: of the server.
        name: of the cluster.
        arguments: port, locale, encoding, datadir, allow_group_access, data_checksums,
            wal_segsize (MiB).

    Raises:
        CommandExecutionError: pg_createcluster is not available, or fails.
        UsageError: version or name can't be any.
    """
    options = take(ClusterOptions, arguments, "postgres.cluster_create")
    words = ["pg_createcluster"]
    for flag in ("port", "locale", "encoding", "datadir"):
        value = getattr(options, flag)
        if value not in (None, ""):
            words.append(f"--{flag}={value}")
    words += [*_checked(version, name), "--"]
    if truth(options.allow_group_access):
        words.append("--allow-group-access")
    if truth(options.data_checksums):
        words.append("--data-checksums")
    if options.wal_segsize:
        words.append(f"--wal-segsize={options.wal_segsize}")
    programs.need(context, words, _PACKAGE, timeout=_DEADLINE)
    return True


@function(fails="bool")
def cluster_remove(context: Context, version: Any, name: str = "main", stop: bool = False) -> bool:
    """Remove a cluster with its data.

    Args:
        context: the call's context.
        version: of the server.
        name: of the cluster.
        stop: stop its server first.

    Raises:
        CommandExecutionError: pg_dropcluster is not available, or fails.
        UsageError: version or name can't be any.
    """
    words = ["pg_dropcluster", *(["--stop"] if truth(stop) else []), *_checked(version, name)]
    programs.need(context, words, _PACKAGE, timeout=_DEADLINE)
    return True


@function(reads=True)
def datadir_exists(context: Context, name: str) -> bool:
    """Return whether a folder holds the data of a server."""
    return all(Path(name, one).is_file() for one in ("PG_VERSION", "postgresql.conf"))


@dataclass(frozen=True)
class DatadirOptions:
    """Attributes of a new folder of data, with Salt's names."""

    auth: str = "password"
    user: Optional[str] = None
    password: Optional[str] = None
    encoding: str = "UTF8"
    locale: Optional[str] = None
    waldir: Optional[str] = None
    checksums: bool = False
    runas: Optional[str] = None


@function(fails="bool")
def datadir_init(context: Context, /, name: str, **arguments: Any) -> bool:
    """Create the folder with a server's data; return False if it exists.

    Args:
        context: the call's context.
        name: path of the folder.
        arguments: auth ("password"), user (the superuser), password (of it), encoding ("UTF8"),
            locale, waldir, checksums (False), runas (system user, "postgres").

    Raises:
        CommandExecutionError: initdb is not available, or fails.
        UsageError: *name* is no absolute path.
    """
    options = take(DatadirOptions, arguments, "postgres.datadir_init")
    if not Path(name).is_absolute():
        raise UsageError(f"{str(name)[:80]!r} is no absolute path")
    if datadir_exists(context, name):
        return False
    runas = options.runas or (OWNER if os.geteuid() == 0 else None)
    words = [
        find(context, "initdb", _SERVER),
        f"--pgdata={name}",
        f"--auth={options.auth}",
        f"--encoding={options.encoding}",
    ]
    if options.user or runas:
        words.append(f"--username={options.user or runas}")
    if options.locale is not None:
        words.append(f"--locale={options.locale}")
    if options.waldir is not None:
        words += ["-X", str(options.waldir)]
    if truth(options.checksums):
        words.append("--data-checksums")
    with _password_file(options.password, runas) as path:
        settings = RunOptions(
            python_shell=False, runas=runas, cwd="/", timeout=_DEADLINE, env={"LC_ALL": "C"}
        )
        ran = run(context, [*words, *([f"--pwfile={path}"] if path else [])], settings)
    if ran.timed_out or ran.retcode:
        told = "it did not end in time" if ran.timed_out else ran.stderr.strip()[-2000:]
        raise CommandExecutionError(f"initdb failed: {told or 'it printed nothing'}")
    return True


@contextmanager
def _password_file(password: Optional[str], runas: Optional[str]) -> Iterator[str]:
    """Write a password into a file that only *runas* may read; yield its path, or ""."""
    if password is None:
        yield ""
        return
    if "\n" in str(password):
        raise UsageError("a password must not contain a line break")
    handle, path = tempfile.mkstemp(prefix="catena-initdb-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(f"{password}\n")
        identity = find_identity(runas) if runas else None
        if identity is not None:
            os.chown(path, identity.uid, identity.gid)
        yield path
    finally:
        Path(path).unlink()
