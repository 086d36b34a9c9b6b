from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.states import INDEX as STATES
from tests.support.debian_roots import Root, overlay


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    with overlay(tmp_path / "system") as found:
        yield found


class NoFiles:
    """A file server without files."""

    def fetch(self, path: str, saltenv: str = "base") -> Path | None:
        return None

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"files.{name} is not needed here")


def context_of(root: Root, provider: str, test: bool = False) -> Context:
    """A context whose commands run inside *root*; everything else is the real thing."""

    def late(prefix: str) -> dict[str, Plugin] | None:
        if prefix != "cmd":
            return None
        mark = FunctionMark("run_all")
        return {
            "cmd.run_all": Plugin(
                "cmd.run_all",
                lambda context, cmd, **options: root.cmd_run_all(cmd, **options),
                mark,
            )
        }

    functions = Registry("function", modules.INDEX, FunctionMark, late)
    files: Any = NoFiles()
    host: Any = None
    return Context(
        opts={"providers.pkg": provider},
        grains={},
        pillar={},
        functions=functions,
        states=Registry("state", STATES, StateMark),
        files=files,
        host=host,
        test=test,
    )
