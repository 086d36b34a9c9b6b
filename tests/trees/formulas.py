"""The list of formulas to apply: `formulas.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("formulas.yaml")


@dataclass(frozen=True)
class Formula:
    """One formula.

    Args:
        name: of the folder NAME-formula.
        sls: what to apply, in this order.
        example: apply it with its own pillar.example.
        edits: regular expressions and replacements, for an example that Salt refuses as it is.
        pillar: merged over the example.
        beside: names of other formulas that its states include.
        commands: shell commands that prepare the host, as the formula's README asks.
        needs: what a reader must know: a package, a kernel module, a server.
        repeats: states that change something in every run by the formula's own fault, with why.
    """

    name: str
    sls: tuple[str, ...]
    example: bool = True
    edits: Mapping[str, str] = field(default_factory=dict)
    pillar: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    needs: str = ""
    repeats: Mapping[str, str] = field(default_factory=dict)

    def edited(self, text: str) -> str:
        """Return the text of the example with all edits.

        Raises:
            ValueError: an edit finds nothing, because the formula has changed.
        """
        for pattern, replacement in self.edits.items():
            text, number = re.subn(pattern, replacement, text)
            if not number:
                raise ValueError(f"{self.name}: pillar.example has nothing like {pattern!r}")
        return text


def read(path: Path = LIST) -> dict[str, Formula]:
    """Return the formulas of *path* by name.

    Raises:
        ValueError: an entry has a key that is none.
    """
    found = {}
    for name, given in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        entry = {"sls": [name], **(given or {})}
        for key in ("sls", "beside", "commands"):
            entry[key] = tuple(entry.get(key, ()))
        try:
            found[name] = Formula(name, **entry)
        except TypeError as error:
            raise ValueError(f"{path}: {name}: {error}") from None
    return found
