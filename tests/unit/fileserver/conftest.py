from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.fileserver.remote import Request, one_by_one
from catena.fileserver.service import FileService
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    FilesReply,
    FilesRequest,
    ManifestReply,
)

WriteTree = Callable[[Path, Mapping[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a file root with a few files."""
    return write_tree(
        tmp_path / "root",
        {"top.sls": "base: {}\n", "app/init.sls": "a: 1\n", "app/files/x.conf": "x = 1\n"},
    )


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


class Direct:
    """A `ChunkSource` straight from a service, that counts what is asked."""

    def __init__(self, service: FileService, minion: str) -> None:
        self.service = service
        self.minion = minion
        self.manifests = 0
        self.asked: list[ChunkRequest] = []
        self.together: list[FilesRequest] = []

    def manifest(self, saltenv: str) -> ManifestReply:
        self.manifests += 1
        return self.service.manifest(self.minion, saltenv)

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        self.asked.append(request)
        return self.service.chunk(self.minion, request)

    def files(self, request: FilesRequest) -> FilesReply:
        self.together.append(request)
        return self.service.files(self.minion, request)

    def pipelined(self, requests: Sequence[Request], window: int) -> Iterator[Any]:
        return one_by_one(self, requests)

    def paths(self) -> list[str]:
        """Return the paths of which pieces were asked, the lists left out, and of whole files."""
        pieces = [request.path for request in self.asked if request.path]
        return pieces + [path for request in self.together for path in request.paths]


@pytest.fixture
def write() -> WriteTree:
    return write_tree


@pytest.fixture
def direct() -> Callable[[FileService, str], Direct]:
    return Direct
