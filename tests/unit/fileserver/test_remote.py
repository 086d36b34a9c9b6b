from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import NotFoundError, PeerError
from catena.fileserver import transfers
from catena.fileserver.remote import REPORTED_BYTES, CachingClient, WrongContentError
from catena.fileserver.service import FileService
from catena.transport.messages import (
    PIECE_BYTES,
    ChunkReply,
    ChunkRequest,
    FilesReply,
    FilesRequest,
)


@pytest.fixture
def service(tree: Path) -> FileService:
    return FileService({"base": [tree], "dev": [tree]}, monotonic=iter(range(10**6)).__next__)


@pytest.fixture
def source(service: FileService, direct: Any) -> Any:
    return direct(service, "web1")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_file_comes_with_its_content_name_and_no_right_to_write(source: Any, cache: Path) -> None:
    found = CachingClient(source, cache).fetch("app/files/x.conf")
    assert found is not None
    assert found.read_text() == "x = 1\n"
    assert found.parts[-3:] == ("app", "files", "x.conf")
    assert found.stat().st_mode & 0o777 == 0o400
    assert cache.stat().st_mode & 0o777 == 0o700


def test_lists_files_and_folders_are_those_of_the_master(source: Any, cache: Path) -> None:
    client = CachingClient(source, cache)
    assert [e.path for e in client.entries(prefix="app")] == ["app/files/x.conf", "app/init.sls"]
    assert client.folders() == ["app", "app/files"]
    assert client.environments() == ["base", "dev"]
    assert client.fetch("nosuch") is None
    assert client.fetch("../top.sls") is None
    assert client.entry("top.sls") is not None


def test_one_job_asks_for_the_list_once(source: Any, cache: Path) -> None:
    client = CachingClient(source, cache)
    for path in ("top.sls", "app/init.sls", "nosuch", "top.sls"):
        client.fetch(path)
    client.entries()
    assert source.manifests == 1


def test_unchanged_files_and_lists_are_never_fetched_again(source: Any, cache: Path) -> None:
    CachingClient(source, cache).fetch("top.sls")
    source.asked.clear()
    again = CachingClient(source, cache)
    assert again.fetch("top.sls") is not None
    assert again.fetch("top.sls", "dev") is not None
    assert source.paths() == []


def test_content_known_under_another_path_is_not_fetched(
    tree: Path, source: Any, cache: Path
) -> None:
    (tree / "copy.sls").write_bytes((tree / "top.sls").read_bytes())
    client = CachingClient(source, cache)
    client.fetch("top.sls")
    copy = client.fetch("copy.sls")
    assert copy is not None and copy.name == "copy.sls"
    assert source.paths() == ["top.sls"]


def test_next_job_gets_the_new_content(tree: Path, source: Any, cache: Path) -> None:
    old = CachingClient(source, cache).fetch("top.sls")
    (tree / "top.sls").write_text("base: {new: []}\n")
    new = CachingClient(source, cache).fetch("top.sls")
    assert new == old
    assert new is not None and new.read_text() == "base: {new: []}\n"


def test_file_that_changes_under_way_is_fetched_in_its_new_form(
    tree: Path, source: Any, cache: Path
) -> None:
    client = CachingClient(source, cache)
    client.entries()
    (tree / "top.sls").write_text("changed\n")
    found = client.fetch("top.sls")
    assert found is not None and found.read_text() == "changed\n"
    assert source.manifests == 2


def test_torn_content_is_seen_and_fetched_again(source: Any, cache: Path) -> None:
    first = CachingClient(source, cache).fetch("top.sls")
    assert first is not None
    first.chmod(0o600)
    first.write_text("b@se: {}\n")
    again = CachingClient(source, cache).fetch("top.sls")
    assert again is not None and again.read_text() == "base: {}\n"


def test_large_files_come_in_a_window_of_pieces(tree: Path, source: Any, cache: Path) -> None:
    content = b"0123456789abcdef" * (PIECE_BYTES // 10)
    (tree / "big").write_bytes(content)
    found = CachingClient(source, cache).fetch("big")
    assert found is not None and found.read_bytes() == content
    assert [r.offset for r in source.asked if r.path] == [0, PIECE_BYTES]


def test_empty_file_is_fetched_without_a_request(tree: Path, source: Any, cache: Path) -> None:
    (tree / "empty").write_text("")
    found = CachingClient(source, cache).fetch("empty")
    assert found is not None and found.read_bytes() == b""
    assert source.paths() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: replace(reply, data=reply.data[:-1] + b"!"),
        lambda reply: replace(reply, data=reply.data + b"!"),
        lambda reply: replace(reply, data=reply.data[:-1]),
        lambda reply: replace(reply, offset=7),
        lambda reply: replace(reply, sha256="0" * 64),
        lambda reply: replace(reply, data=b""),
    ],
)
def test_wrong_pieces_are_refused_and_leave_nothing(
    source: Any, cache: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    right = source.chunk

    def wrong(request: ChunkRequest) -> ChunkReply:
        reply: ChunkReply = right(request)
        made: ChunkReply = change(reply) if request.path else reply
        return made

    client = CachingClient(source, cache)
    client.entries()
    before = sorted(cache.rglob("*"))
    monkeypatch.setattr(source, "chunk", wrong)
    with pytest.raises(WrongContentError):
        client.fetch("top.sls")
    assert [p for p in sorted(cache.rglob("*")) if p.is_file()] == [
        p for p in before if p.is_file()
    ]


def test_refusal_of_the_master_is_an_error_and_not_a_missing_file(
    source: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CachingClient(source, cache)
    client.entries()

    def refuse(request: ChunkRequest) -> ChunkReply:
        raise NotFoundError("gone")

    monkeypatch.setattr(source, "chunk", refuse)
    with pytest.raises(NotFoundError):
        client.fetch("top.sls")


def test_folder_can_take_the_place_of_a_file(
    tree: Path, source: Any, cache: Path, write: Any
) -> None:
    (tree / "thing").write_text("file")
    CachingClient(source, cache).fetch("thing")
    (tree / "thing").unlink()
    write(tree, {"thing/inner": "inner"})
    found = CachingClient(source, cache).fetch("thing/inner")
    assert found is not None and found.read_text() == "inner"
    assert found.name == "inner"


def test_file_can_take_the_place_of_a_folder(
    tree: Path, source: Any, cache: Path, write: Any
) -> None:
    write(tree, {"thing/inner": "inner"})
    CachingClient(source, cache).fetch("thing/inner")
    (tree / "thing/inner").unlink()
    (tree / "thing").rmdir()
    (tree / "thing").write_text("file")
    found = CachingClient(source, cache).fetch("thing")
    assert found is not None and found.read_text() == "file"
    assert found.name == "thing"


def test_cache_is_pruned_once_a_day(source: Any, cache: Path) -> None:
    client = CachingClient(source, cache)
    held = client.fetch("top.sls")
    assert held is not None
    client.prune_daily()
    os.utime(held, (1, 1))
    client.prune_daily()
    assert held.exists()
    os.utime(cache / ".pruned", (1, 1))
    client.prune_daily()
    assert not held.exists()


def test_many_files_come_together_and_a_changed_one_is_looked_up_anew(
    source: Any, cache: Path, tree: Path
) -> None:
    client = CachingClient(source, cache)
    client.entries()
    (tree / "top.sls").write_text("changed: {}\n")
    found = client.fetch_all(["app/init.sls", "top.sls", "no.such", "app/files/x.conf"])
    assert [path.read_bytes() if path else None for path in found] == [
        (tree / "app/init.sls").read_bytes(), b"changed: {}\n", None,
        (tree / "app/files/x.conf").read_bytes(),
    ]  # fmt: skip


def test_file_that_is_removed_meanwhile_keeps_no_other_from_coming(
    tree: Path, source: Any, cache: Path
) -> None:
    client = CachingClient(source, cache)
    client.entries()
    (tree / "app/init.sls").unlink()
    paths = ["top.sls", "app/init.sls", "app/files/x.conf"]
    found = client.fetch_all(paths)
    assert [path.name if path else None for path in found] == ["top.sls", None, "x.conf"]
    client.refresh()
    (tree / "top.sls").write_text("another\n")
    client.entries()
    (tree / "top.sls").unlink()
    assert client.contents(["top.sls", "app/files/x.conf"]) == [None, b"x = 1\n"]


def test_contents_that_no_job_used_for_long_are_pruned(source: Any, cache: Path) -> None:
    client = CachingClient(source, cache)
    used, unused = client.fetch("top.sls"), client.fetch("app/init.sls")
    assert used is not None and unused is not None
    partial = used.parent / ".x.123.new"
    partial.write_text("")
    for old in (used, unused, partial):
        os.utime(old, (1000, 1000))
    again = CachingClient(source, cache)
    again.fetch("top.sls")
    assert again.prune(3600) == 3
    assert used.exists() and not unused.exists() and not partial.exists()
    source.asked.clear()
    CachingClient(source, cache).fetch("top.sls")
    CachingClient(source, cache).fetch("app/init.sls")
    assert source.paths() == ["app/init.sls"]


def test_environment_with_an_odd_name_stays_inside_the_cache(
    service: FileService, source: Any, cache: Path
) -> None:
    client = CachingClient(source, cache)
    assert client.fetch("top.sls", "../../x") is None
    assert {p.relative_to(cache).parts[0] for p in cache.rglob("*")} <= {"objects", "files"}


def test_small_files_come_many_in_one_request(
    tree: Path, source: Any, cache: Path, write: Any
) -> None:
    write(tree, {f"many/{number}": f"file {number}\n" for number in range(300)})
    (tree / "many/large").write_bytes(bytes(600_000))
    client = CachingClient(source, cache)
    paths = [f"many/{number}" for number in range(300)] + ["many/large"]
    found = client.fetch_all(paths)
    assert all(
        p is not None and p.read_bytes() == (tree / n).read_bytes()
        for p, n in zip(found, paths, strict=True)
    )
    assert [len(request.paths) for request in source.together] == [128, 128, 44]


def test_group_of_files_is_no_larger_than_a_piece(
    tree: Path, source: Any, cache: Path, write: Any
) -> None:
    write(tree, {f"half/{number}": str(number) * 260_000 for number in range(3)})
    CachingClient(source, cache).fetch_all([f"half/{number}" for number in range(3)])
    assert [len(request.paths) for request in source.together] == [2, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda contents: contents[:1],
        lambda contents: (*contents, b""),
        lambda contents: contents[::-1],
    ],
)
def test_wrong_files_are_refused(
    source: Any, cache: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    right = source.files
    monkeypatch.setattr(
        source, "files", lambda request: FilesReply(change(right(request).contents))
    )
    with pytest.raises(WrongContentError):
        CachingClient(source, cache).fetch_all(["top.sls", "app/init.sls"])


def test_files_are_requested_one_by_one_from_an_older_master(
    tree: Path, source: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(request: FilesRequest) -> FilesReply:
        raise PeerError("unknown message type 55")

    monkeypatch.setattr(source, "files", unknown)
    found = CachingClient(source, cache).fetch_all(["top.sls", "app/init.sls"])
    assert [path and path.read_bytes() for path in found] == [
        (tree / "top.sls").read_bytes(), (tree / "app/init.sls").read_bytes(),
    ]  # fmt: skip


def test_contents_come_together_and_stay_nowhere(
    tree: Path, source: Any, cache: Path, write: Any
) -> None:
    write(tree, {f"many/{number}": f"file {number}\n" for number in range(200)})
    (tree / "many/empty").write_bytes(b"")
    (tree / "many/large").write_bytes(bytes(600_000))
    client = CachingClient(source, cache)
    client.fetch("many/7")
    paths = [*(f"many/{number}" for number in range(200)), "many/empty", "many/none", "many/large"]
    contents = client.contents(paths)
    assert contents[-2] is None
    assert all(
        data == (tree / path).read_bytes()
        for path, data in zip(paths, contents, strict=True)
        if data is not None
    )
    assert [len(request.paths) for request in source.together] == [128, 71]
    names = {path.name for path in (cache / "files").rglob("*") if path.is_file()}
    assert names == {"7", "empty", "large"}


def test_contents_are_checked(source: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "files", lambda request: FilesReply((b"base: []\n",)))
    with pytest.raises(WrongContentError):
        CachingClient(source, cache).contents(["top.sls"])


def test_content_that_has_changed_meanwhile_is_the_new_one(
    tree: Path, source: Any, cache: Path
) -> None:
    client = CachingClient(source, cache)
    client.entries()
    (tree / "top.sls").write_text("changed\n")
    assert client.contents(["app/init.sls", "top.sls"]) == [b"a: 1\n", b"changed\n"]


def test_large_files_are_reported_and_small_ones_are_not(
    source: Any, cache: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "PAUSE_SECONDS", 0.0)
    (tree / "large").write_bytes(b"x" * REPORTED_BYTES)
    (tree / "small").write_bytes(b"x" * (REPORTED_BYTES - 1))
    client, steps = CachingClient(source, cache), []
    client.report = lambda kind, data: steps.append((kind, data["path"], data["done"]))
    assert client.fetch("small") is not None
    assert steps == []
    assert client.fetch("large") is not None
    expected = range(PIECE_BYTES, REPORTED_BYTES + 1, PIECE_BYTES)
    assert steps == [("transfer", "large", done) for done in expected]
