"""Scratch folders and fixtures of rows, created on first use and ended together."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar, cast

from bench.errors import BenchError
from bench.tools import Tools


class Fixture(Protocol):
    """A resource that a lab keeps while rows need it."""

    def close(self) -> None:
        """End the fixture and all its processes."""


F = TypeVar("F", bound=Fixture)
T = TypeVar("T")


class Lab:
    """Fixtures of the rows of one area; a context manager that ends them all.

    Args:
        tools: what is installed.
        quick: whether this is a short run.
    """

    def __init__(self, tools: Tools, quick: bool = False) -> None:
        self.tools = tools
        self.quick = quick
        self._kept: dict[str, Fixture | BenchError] = {}
        self._made: dict[str, object] = {}
        self._folder: Path | None = None

    def folder(self, name: str) -> Path:
        """Return a scratch folder of that name, made when first asked for.

        Its path is short enough for unix sockets, and the mark of what runs in it.
        """
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="cab-"))
        path = self._folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, name: str, start: Callable[[], F]) -> F:
        """Return the fixture of that name, started by *start* when first asked for.

        One that could not be started is not tried again: every row that needs it says why.
        """
        if name not in self._kept:
            try:
                self._kept[name] = start()
            except BenchError as error:
                self._kept[name] = error
        kept = self._kept[name]
        if isinstance(kept, BenchError):
            raise kept
        return cast("F", kept)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return the cached result of *make*, such as a tree of files."""
        if name not in self._made:
            self._made[name] = make()
        return cast("T", self._made[name])

    def drop(self, name: str) -> None:
        """End the fixture of that name before the others, if it runs."""
        kept = self._kept.pop(name, None)
        if kept is not None and not isinstance(kept, BenchError):
            kept.close()

    def close(self) -> None:
        """End all fixtures in reverse order and remove the scratch folders."""
        for name in reversed(list(self._kept)):
            try:
                self.drop(name)
            except (BenchError, OSError) as error:
                print(f"bench: {name} did not end as it should: {error}", file=sys.stderr)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
