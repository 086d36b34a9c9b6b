"""Which names custom files of the file roots may have, as far as that can be told from here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_QUOTED = re.compile(r"""['"]([A-Za-z0-9_]+)['"]""")


class CustomNames:
    """The names before the dot that the custom files of a kind may have on a target.

    A file serves its own name, or one that stands in quotes in its text; whether it really does
    (`__virtual__`) only the target can tell.

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
