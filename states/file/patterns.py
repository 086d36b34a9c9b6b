"""include_pat and exclude_pat: shell patterns, or regular expressions after E@."""

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
    """Return whether *path*, relative, is included and not excluded; nothing given includes all.

    Raises:
        CommandExecutionError: a pattern is no regular expression.
    """
    if include and not _hits(path, include):
        return False
    return not (exclude and _hits(path, exclude))
