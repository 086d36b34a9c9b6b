from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from catena.core.context import Context, Host
from catena.core.errors import CommandExecutionError
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.fileserver.roots import RootsClient

MakeContext = Callable[..., Context]


class Folders:
    """As much of a Host as renderers use."""

    def __init__(self, top: Path) -> None:
        self.conf_dir = top / "conf"
        self.cache_dir = top / "cache"


def echo(context: Context, value: Any = "", **kwargs: Any) -> Any:
    return kwargs or value


def boom(context: Context) -> None:
    raise CommandExecutionError("boom")


def functions(prefix: str) -> dict[str, Plugin] | None:
    if prefix != "test":
        return None
    mark = FunctionMark()
    return {name: Plugin(name, call, mark) for name, call in CALLS.items()}


CALLS = {"test.echo": echo, "test.boom": boom}


@pytest.fixture
def make_context(tmp_path: Path) -> MakeContext:
    """Return a context over a tree of files, given as path -> text."""

    def make(files: Mapping[str, str] | None = None, **fields: Any) -> Context:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for path, text in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        given = {
            "opts": {"id": "web1"},
            "grains": {"id": "web1", "os": "Debian"},
            "pillar": {"port": 80},
            "functions": Registry("function", {}, FunctionMark, functions),
            "states": Registry("state", {}, StateMark),
            "files": RootsClient({"base": [root]}),
            "host": cast(Host, Folders(tmp_path)),
            **fields,
        }
        return Context(**given)

    return make
