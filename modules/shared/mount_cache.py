"""Remember with which options a file system was mounted, between runs.

A mounted file system does not show every option. An option that a state has dropped, or one that
the kernel never shows, can only be known from what the last run has done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, LimitError
from catena.core.files import read_limited, write_durable

#: Maximum size of the file, in bytes.
_LIMIT = 1024 * 1024


def _path(context: Context) -> Path:
    return Path(context.host.cache_dir) / "mounts.json"


def load(context: Context) -> Dict[str, Dict[str, Any]]:
    """Return device, fstype, opts and unseen options by mount point; {} if the file is damaged."""
    try:
        found = json.loads(read_limited(_path(context), _LIMIT))
    except (OSError, ValueError, LimitError):
        return {}
    rows = found.get("mounts") if isinstance(found, dict) else None
    if not isinstance(rows, dict):
        return {}
    return {name: row for name, row in rows.items() if isinstance(row, dict)}


def store(context: Context, rows: Dict[str, Dict[str, Any]]) -> None:
    """Replace what is remembered.

    Raises:
        CommandExecutionError: the file can't be written.
    """
    path = _path(context)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durable(path, json.dumps({"mounts": rows}, sort_keys=True).encode("utf-8"))
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
