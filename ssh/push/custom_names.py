"""The names that custom files of the file roots may provide, as far as the master can tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_QUOTED = re.compile(r"""['"]([A-Za-z0-9_]+)['"]""")


class CustomNames:
    """The module names that custom files of one kind may provide on a target.

    A file provides its own name, or a name that occurs in quotes in its text. Only the target can
    decide whether it really does (`__virtual__`).

    Args:
        files: path of each custom file by its path below `_modules/` or `_states/`.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._names: set[str] = set()
        for path, local in files.items():
            self._names.add(path.partition("/")[0].removesuffix(".py"))
            text = local.read_text(encoding="utf-8", errors="replace")
            self._names.update(_QUOTED.findall(text))

    def __contains__(self, prefix: object) -> bool:
        return prefix in self._names
