"""include_pat and exclude_pat: shell patterns, or regular expressions with the prefix E@."""

from __future__ import annotations

import fnmatch
from typing import Any

from catena.modules.file.edits import compiled


def _hits(path: str, patterns: Any) -> bool:
    for pattern in patterns if isinstance(patterns, (list, tuple)) else [patterns]:
        text = str(pattern)
        if text.startswith("E@"):
            if compiled(text[2:]).search(path):
                return True
        elif fnmatch.fnmatch(path, text):
            return True
    return False


def chosen(path: str, include: Any, exclude: Any) -> bool:
    """Return whether the relative *path* is included and not excluded; default: included.

    Raises:
        CommandExecutionError: a regular expression is invalid.
    """
    if include and not _hits(path, include):
        return False
    return not (exclude and _hits(path, exclude))
