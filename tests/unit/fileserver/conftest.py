from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from catena.fileserver.service import FileService
from catena.transport.messages import ChunkReply, ChunkRequest, ManifestReply

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

    def manifest(self, saltenv: str) -> ManifestReply:
        self.manifests += 1
        return self.service.manifest(self.minion, saltenv)

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        self.asked.append(request)
        return self.service.chunk(self.minion, request)

    def pipelined(self, requests: Sequence[ChunkRequest], window: int) -> Iterator[ChunkReply]:
        for request in requests:
            yield self.chunk(request)

    def files(self) -> list[str]:
        """Return the paths of which pieces were asked, the lists left out."""
        return [request.path for request in self.asked if request.path]


@pytest.fixture
def write() -> WriteTree:
    return write_tree


@pytest.fixture
def direct() -> Callable[[FileService, str], Direct]:
    return Direct
