"""A context on this very host: real files, real commands, all below a temporary folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from catena import modules, states
from catena.core.context import Context, Distant, FileEntry, RebootRequest
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.fileserver.roots import read_each


@dataclass
class FolderFiles:
    """File roots in one folder."""

    root: Path

    def fetch(self, path: str, saltenv: str = "base") -> Path | None:
        found = self.root / path
        return found if found.is_file() else None

    def entry(self, path: str, saltenv: str = "base") -> FileEntry | None:
        found = self.fetch(path, saltenv)
        if found is None:
            return None
        data = found.read_bytes()
        mode = found.stat().st_mode & 0o7777
        return FileEntry(path, hashlib.sha256(data).hexdigest(), len(data), mode)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> list[Path | None]:
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> list[bytes | None]:
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Distant | None:
        return None

    def entries(self, saltenv: str = "base", prefix: str = "") -> list[FileEntry]:
        paths = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        return [e for p in paths if p.startswith(prefix) and (e := self.entry(p))]

    def folders(self, saltenv: str = "base", prefix: str = "") -> list[str]:
        paths = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_dir())
        return [path for path in paths if path.startswith(prefix)]

    def environments(self) -> list[str]:
        return ["base"]


@dataclass
class ArmedHost:
    """A host in a chunk: a reboot is armed, nothing happens."""

    cache_dir: Path
    armed: list[RebootRequest] = field(default_factory=list)

    def arm_reboot(self, request: RebootRequest) -> bool:
        self.armed.append(request)
        return True

    def show_output(self) -> None:
        """Show it to nobody: there is no master."""

    def listen(self) -> None:
        """Return None: there is no master that takes output."""


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    folder = tmp_path / "roots"
    folder.mkdir()
    return folder


@pytest.fixture
def context(tmp_path: Path, roots: Path) -> Context:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    return Context(
        opts={"id": "minion", "hosts.file": str(tmp_path / "hosts")},
        grains={"id": "minion", "shell": "/bin/sh"},
        pillar={"text": "from pillar\n"},
        functions=Registry("function", modules.INDEX, FunctionMark),
        states=Registry("state", states.INDEX, StateMark),
        files=FolderFiles(roots),
        host=ArmedHost(cache),  # type: ignore[arg-type]  # only what these modules touch
    )
