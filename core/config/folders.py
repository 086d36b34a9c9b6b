"""Where settings put files: `root_dir` before every absolute folder that is not under it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

C = TypeVar("C")

#: Settings that name a folder or file of the daemon itself.
_OWN = ("cache_dir", "state_dir", "pki_dir", "run_dir", "log_file", "agent_dir")


def rooted(settings: C) -> C:
    """Return *settings* with `root_dir` put before the daemon's own folders, as Salt does."""
    record = cast(Any, settings)
    root = record.root_dir.rstrip("/")
    if not root:
        return settings
    changes = {name: _under(root, getattr(record, name)) for name in _OWN if hasattr(record, name)}
    return cast(C, dataclasses.replace(record, **changes))


def _under(root: str, path: str) -> str:
    if path == "-" or path.startswith(f"{root}/"):
        return path
    return f"{root}/{path.lstrip('/')}"
