"""A tree of SLS files as data, and what a run of it comes to, in comparable form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]


@dataclass(frozen=True)
class Tree:
    """SLS files and how they are applied."""

    #: By path below the file root.
    files: Mapping[str, Body]
    mods: tuple[str, ...]
    test: bool = False
    #: `failhard` of the configuration.
    failhard: bool = False

    def texts(self) -> dict[str, str]:
        """Return the files as they are written."""
        return {path: f"#!yaml\n{_dumped(body)}" for path, body in self.files.items()}

    def show(self) -> str:
        """Return the tree for somebody who looks for a fault."""
        head = f"apply {','.join(self.mods)} test={self.test} failhard={self.failhard}"
        return "\n".join([head, *(f"--- {p}\n{_dumped(b)}" for p, b in self.files.items())])


class _Plain(yaml.SafeDumper):
    """Writes a value again instead of an alias to it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dumped(body: Body) -> str:
    return yaml.dump(body, Dumper=_Plain, sort_keys=False) if body else ""


def sls_name(path: str) -> str:
    """Return the dotted name of an SLS file."""
    return path.removesuffix(".sls").removesuffix("/init").replace("/", ".")


def load(path: Path) -> tuple[Tree, list[Any]]:
    """Return a tree that was kept as a case, and what was recorded of it.

    Each row is [key, result, changed, why]; a tree that is refused has words for its faults.
    """
    data = yaml.safe_load(path.read_text())
    run = data.get("run", {})
    mods = tuple(run.get("mods", ["t"]))
    tree = Tree(data["files"], mods, run.get("test", False), run.get("failhard", False))
    return tree, [tuple(row) if isinstance(row, list) else row for row in data["recorded"]]
