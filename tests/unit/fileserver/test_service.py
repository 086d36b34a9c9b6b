from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import FileChangedError, NotFoundError
from catena.fileserver import manifest as manifests
from catena.fileserver.index import BadPathError
from catena.fileserver.manifest import Manifest
from catena.fileserver.service import FileService
from catena.transport.messages import (
    CHUNK_BYTES,
    FILES_AT_ONCE,
    PIECE_BYTES,
    ChunkRequest,
    FilesRequest,
)


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def listed(service: FileService, minion: str, saltenv: str = "base") -> Manifest:
    reply = service.manifest(minion, saltenv)
    blob = b""
    while len(blob) < reply.size:
        blob += service.chunk(minion, ChunkRequest(saltenv, "", reply.sha256, len(blob))).data
    assert manifests.digest(blob) == reply.sha256
    return manifests.unpack(blob)


@pytest.fixture
def chains(tmp_path: Path, write: Any) -> dict[str, dict[str, Path]]:
    """Return the overlays of two minions."""
    root = write(tmp_path / "chains", {"one.sls": "secret of one", "two.sls": "secret of two"})
    return {
        "one": {"actionchains/actionchain_1_one_1.sls": root / "one.sls"},
        "two": {
            "actionchains/actionchain_1_two_1.sls": root / "two.sls",
            "top.sls": root / "two.sls",
        },
    }


@pytest.fixture
def service(tree: Path, chains: dict[str, dict[str, Path]]) -> FileService:
    return FileService({"base": [tree], "dev": [tree]}, lambda minion: chains.get(minion, {}))


def test_minion_sees_the_tree_and_its_own_chain_files(service: FileService) -> None:
    assert list(listed(service, "one").entries) == [
        "actionchains/actionchain_1_one_1.sls",
        "app/files/x.conf",
        "app/init.sls",
        "top.sls",
    ]
    assert "actionchains" in listed(service, "one").folders


def test_other_minions_can_neither_list_nor_fetch_them(service: FileService) -> None:
    theirs = listed(service, "one").entries["actionchains/actionchain_1_one_1.sls"]
    request = ChunkRequest("base", theirs.path, theirs.sha256, 0)
    assert service.chunk("one", request).data == b"secret of one"
    for stranger in ("two", "three", ""):
        assert theirs.path not in listed(service, stranger).entries
        with pytest.raises(NotFoundError):
            service.chunk(stranger, request)


def test_list_of_another_minion_is_not_handed_out_by_its_hash(service: FileService) -> None:
    theirs = service.manifest("one", "base").sha256
    with pytest.raises(FileChangedError):
        service.chunk("two", ChunkRequest("base", "", theirs, 0))


def test_overlay_wins_over_the_tree_for_its_minion_only(service: FileService) -> None:
    own = listed(service, "two").entries["top.sls"]
    assert service.chunk("two", ChunkRequest("base", "top.sls", own.sha256, 0)).data.startswith(
        b"secret"
    )
    assert listed(service, "three").entries["top.sls"].sha256 != own.sha256


def test_removed_chain_file_is_not_served(
    service: FileService, chains: dict[str, dict[str, Path]]
) -> None:
    path, file = next(iter(chains["one"].items()))
    entry = listed(service, "one").entries[path]
    file.unlink()
    assert path not in listed(service, "one").entries
    with pytest.raises(NotFoundError):
        service.chunk("one", ChunkRequest("base", path, entry.sha256, 0))


def test_overlays_are_seen_in_base_only(service: FileService) -> None:
    assert "actionchains/actionchain_1_one_1.sls" not in listed(service, "one", "dev").entries


def test_minions_without_chains_share_one_list(service: FileService) -> None:
    assert service.manifest("a", "base") == service.manifest("b", "base")
    assert service.manifest("a", "base").environments == ("base", "dev")


def test_unknown_environment_is_empty(service: FileService) -> None:
    assert not listed(service, "a", "nosuch").entries


def test_large_file_comes_in_pieces(tree: Path, service: FileService) -> None:
    content = bytes(range(256)) * 4096
    (tree / "big").write_bytes(content + b"end")
    entry = listed(service, "a").entries["big"]
    pieces = [
        service.chunk("a", ChunkRequest("base", "big", entry.sha256, at)).data
        for at in range(0, entry.size, CHUNK_BYTES)
    ]
    assert [len(piece) for piece in pieces] == [CHUNK_BYTES, CHUNK_BYTES, 3]
    assert b"".join(pieces) == content + b"end"


def test_file_that_changed_since_is_refused(tree: Path, service: FileService) -> None:
    entry = listed(service, "a").entries["top.sls"]
    (tree / "top.sls").write_text("base: {}!")
    with pytest.raises(FileChangedError):
        service.chunk("a", ChunkRequest("base", "top.sls", entry.sha256, 0))


@pytest.mark.parametrize("path", ["../root/top.sls", "/../x", "app/../top.sls", "a\0"])
def test_paths_that_leave_the_roots_are_refused(service: FileService, path: str) -> None:
    with pytest.raises(BadPathError):
        service.chunk("a", ChunkRequest("base", path, "0" * 64, 0))


@pytest.mark.parametrize(
    ("size", "comes"), [(1, 1), (PIECE_BYTES, PIECE_BYTES), (64 * PIECE_BYTES, PIECE_BYTES)]
)
def test_piece_is_as_large_as_it_is_asked_for_up_to_a_limit(
    tree: Path, service: FileService, size: int, comes: int
) -> None:
    (tree / "big").write_bytes(bytes(2 * PIECE_BYTES))
    entry = listed(service, "a").entries["big"]
    reply = service.chunk("a", ChunkRequest("base", "big", entry.sha256, 0, size))
    assert len(reply.data) == comes


@pytest.mark.parametrize(
    ("sha256", "offset", "size"), [("x", 0, 1), ("0" * 64, -1, 1), ("0" * 64, 0, 0)]
)
@pytest.mark.parametrize("path", ["top.sls", ""])
def test_senseless_requests_are_refused(
    service: FileService, path: str, sha256: str, offset: int, size: int
) -> None:
    with pytest.raises((NotFoundError, BadPathError, FileChangedError)):
        service.chunk("a", ChunkRequest("base", path, sha256, offset, size))


def test_questions_that_came_before_a_walk_share_it_and_later_ones_see_every_edit(
    tree: Path,
) -> None:
    clock = Seconds()
    service = FileService({"base": [tree]}, monotonic=clock)
    clock.now = 1.0
    before = service.manifest("a", "base", asked=0.5)
    (tree / "new.sls").write_text("")
    assert service.manifest("b", "base", asked=0.9) == before
    assert "new.sls" in listed(service, "b").entries


def test_shipped_files_come_last_in_every_environment(
    tree: Path, tmp_path: Path, write: Any
) -> None:
    shipped = write(tmp_path / "shipped", {"top.sls": "no", "packages/init.sls": "yes"})
    service = FileService({"base": [tree], "dev": [tree]}, extra_roots=[shipped])
    found = listed(service, "a", "dev").entries
    assert "packages/init.sls" in found
    assert found["top.sls"].size == len("base: {}\n")


def test_invented_environments_take_no_memory(service: FileService) -> None:
    for number in range(500):
        service.manifest("a", f"env{number}")
    assert len(service._walks) <= 2
    assert len(service._blobs) <= 64


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"not zlib",
        manifests.pack([], ["../up"], []),
        manifests.pack([], [], [])[:-3],
        zlib.compress(b"[]"),
        zlib.compress(b'{"files": [["a/../b", "x", 1, 1, ""]], "folders": []}'),
        zlib.compress(
            b'{"files": [["../b", "%s", 1, 1, ""]], "folders": [], "environments": []}'
            % (b"0" * 64)
        ),
    ],
)
def test_list_that_is_none_is_refused(blob: bytes) -> None:
    with pytest.raises(manifests.ManifestError):
        manifests.unpack(blob)


def test_list_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "UNPACKED_LIMIT", 100)
    with pytest.raises(manifests.ManifestError, match="too large"):
        manifests.unpack(zlib.compress(b" " * 1000))


def wanted(service: FileService, minion: str, *paths: str) -> FilesRequest:
    entries = listed(service, minion).entries
    return FilesRequest("base", paths, tuple(entries[path].sha256 for path in paths))


def test_small_files_come_all_at_once_in_the_order_asked(tree: Path, service: FileService) -> None:
    paths = ("top.sls", "app/files/x.conf", "app/init.sls")
    reply = service.files("a", wanted(service, "a", *paths))
    assert reply.contents == tuple((tree / path).read_bytes() for path in paths)


def test_one_file_of_several_that_changed_refuses_them_all(
    tree: Path, service: FileService
) -> None:
    request = wanted(service, "a", "top.sls", "app/init.sls")
    (tree / "app/init.sls").write_text("a: 22\n")
    with pytest.raises(FileChangedError):
        service.files("a", request)


def test_chain_files_among_several_are_their_minions_alone(
    service: FileService, chains: dict[str, dict[str, Path]]
) -> None:
    request = wanted(service, "one", "app/init.sls", next(iter(chains["one"])))
    assert len(service.files("one", request).contents) == 2
    with pytest.raises(NotFoundError):
        service.files("two", request)


@pytest.mark.parametrize(
    "request_",
    [
        FilesRequest("base", ("",), ("0" * 64,)),
        FilesRequest("base", ("../root/top.sls",), ("0" * 64,)),
        FilesRequest("base", ("top.sls", "app/init.sls"), ("0" * 64,)),
        FilesRequest(
            "base", ("top.sls",) * (FILES_AT_ONCE + 1), ("0" * 64,) * (FILES_AT_ONCE + 1)
        ),
    ],
)
def test_senseless_requests_of_several_are_refused(
    service: FileService, request_: FilesRequest
) -> None:
    with pytest.raises(BadPathError):
        service.files("a", request_)


def test_several_files_are_no_more_than_one_piece_together(
    tree: Path, service: FileService
) -> None:
    (tree / "big").write_bytes(bytes(CHUNK_BYTES))
    assert service.files("a", wanted(service, "a", "big")).contents == (bytes(CHUNK_BYTES),)
    with pytest.raises(BadPathError):
        service.files("a", wanted(service, "a", "big", "top.sls"))
