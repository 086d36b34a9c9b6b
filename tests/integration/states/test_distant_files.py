"""Files that a real file service has, and a minion's cache has not: where they come to lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult
from catena.fileserver.remote import CachingClient, Request, WrongContentError, one_by_one
from catena.fileserver.service import FileService
from catena.runtime.functions import cp
from catena.transport.messages import (
    ChunkReply,
    ChunkRequest,
    FilesReply,
    FilesRequest,
    ManifestReply,
)

LARGE = b"0123456789abcdef" * 150_000
OTHER = b"\0" + LARGE[1:]


@dataclass
class Master:
    """A file service that counts what is asked of it."""

    service: FileService
    asked: list[str] = field(default_factory=list)

    def manifest(self, saltenv: str) -> ManifestReply:
        return self.service.manifest("m", saltenv)

    def chunk(self, request: ChunkRequest) -> ChunkReply:
        self.asked += [request.path] if request.path else []
        return self.service.chunk("m", request)

    def files(self, request: FilesRequest) -> FilesReply:
        self.asked += request.paths
        return self.service.files("m", request)

    def pipelined(self, requests: Sequence[Request], window: int) -> Iterator[Any]:
        return one_by_one(self, requests)


@pytest.fixture
def master(roots: Path) -> Master:
    return Master(FileService({"base": [roots]}))


@pytest.fixture
def far(context: Context, master: Master, tmp_path: Path) -> Context:
    """Return a context whose files lie at the master."""
    client = CachingClient(master, tmp_path / "cache/files")
    return replace(context, files=client)


def run(context: Context, fun: str, name: Path, **kwargs: Any) -> StateResult:
    if isinstance(context.files, CachingClient):
        context.files.refresh()
    result: StateResult = context.states[f"file.{fun}"].call(context, str(name), **kwargs)
    return result


def largest_cached_bytes(tmp_path: Path) -> int:
    """Return the bytes of the largest content in the cache."""
    found = (tmp_path / "cache/files/objects").rglob("*")
    return max((path.stat().st_size for path in found if path.is_file()), default=0)


def test_large_file_is_stored_only_at_its_path(
    far: Context, roots: Path, tmp_path: Path, master: Master
) -> None:
    (roots / "large").write_bytes(LARGE)
    target = tmp_path / "folder/target"
    wanted: dict[str, Any] = {"source": "salt://large", "mode": "0640", "makedirs": True}
    planned = run(far.with_(test=True), "managed", target, **wanted)
    assert (planned.result, planned.changes) == (None, {"newfile": str(target)})
    assert master.asked == []
    made = run(far, "managed", target, **wanted)
    assert (made.result, made.changes) == (True, {"diff": "New file", "mode": "0640"})
    assert target.read_bytes() == LARGE and target.stat().st_mode & 0o777 == 0o640
    assert largest_cached_bytes(tmp_path) < len(LARGE)
    asked = len(master.asked)
    again = run(far, "managed", target, **wanted)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"File {target} is in the correct state"
    assert len(master.asked) == asked


def test_large_file_is_replaced_with_the_usual_report(
    far: Context, context: Context, roots: Path, tmp_path: Path
) -> None:
    targets = [tmp_path / "far", tmp_path / "near"]
    for source, change in ((LARGE, "New file"), (OTHER, "Replace text file with binary file")):
        (roots / "large").write_bytes(source)
        modes = {"mode": "0644"} if change == "New file" else {}
        for which, target in zip((far, context), targets, strict=True):
            result = run(which, "managed", target, source="salt://large", backup="minion")
            assert (result.result, result.changes) == (True, {**modes, "diff": change})
            assert target.read_bytes() == source
    (roots / "large").write_bytes(OTHER + b"more")
    shown = [
        run(which, "managed", target, source="salt://large", show_changes=False).changes
        for which, target in zip((far, context), targets, strict=True)
    ]
    assert shown == [{"diff": "<show_changes=False>"}] * 2
    kept_copies = sorted(path.stat().st_size for path in (tmp_path / "cache").rglob("far_*"))
    assert kept_copies == [len(LARGE)]


def test_mode_reports_the_change_of_a_large_file(
    far: Context, roots: Path, tmp_path: Path
) -> None:
    (roots / "large").write_bytes(OTHER)
    target = tmp_path / "target"
    target.write_bytes(LARGE)
    planned = run(far.with_(test=True), "managed", target, source="salt://large")
    assert planned.changes == {"diff": "Replace text file with binary file"}
    assert target.read_bytes() == LARGE


def test_corrupted_download_does_not_replace_the_file(
    far: Context, roots: Path, tmp_path: Path, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots / "large").write_bytes(LARGE)
    target = tmp_path / "target"
    target.write_text("mine")
    right = master.chunk

    def wrong(request: ChunkRequest) -> ChunkReply:
        reply = right(request)
        return replace(reply, data=bytes(len(reply.data))) if request.offset else reply

    monkeypatch.setattr(master, "chunk", wrong)
    with pytest.raises(WrongContentError):
        run(far, "managed", target, source="salt://large")
    with pytest.raises(WrongContentError):
        cp.get_file(far, "salt://large", str(tmp_path / "got"))
    assert target.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "roots", "target"]


def test_large_file_changed_during_the_download_arrives_in_its_new_version(
    far: Context, roots: Path, tmp_path: Path, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    (roots / "large").write_bytes(LARGE)
    right = master.chunk

    def chunk(request: ChunkRequest) -> ChunkReply:
        if request.offset and len(master.asked) < 4:
            (roots / "large").write_bytes(OTHER + b"!")
        return right(request)

    monkeypatch.setattr(master, "chunk", chunk)
    assert run(far, "managed", tmp_path / "target", source="salt://large").result is True
    assert (tmp_path / "target").read_bytes() == OTHER + b"!"


def test_large_template_is_cached_before_rendering(
    far: Context, roots: Path, tmp_path: Path
) -> None:
    (roots / "large").write_bytes(LARGE + b"{{ grains['id'] }}\n")
    wanted: dict[str, Any] = {"source": "salt://large", "template": "jinja"}
    assert run(far, "managed", tmp_path / "target", **wanted).result is True
    assert (tmp_path / "target").read_bytes().endswith(b"minion\n")


def test_recurse_stores_large_files_only_at_their_target(
    far: Context, roots: Path, tmp_path: Path, master: Master
) -> None:
    (roots / "tree").mkdir()
    for number in range(300):
        (roots / f"tree/{number}").write_text(f"file {number}\n")
    (roots / "tree/large").write_bytes(LARGE)
    target = tmp_path / "t"
    made = run(far, "recurse", target, source="salt://tree")
    assert made.result is True and len(made.changes) == 302
    assert all(
        (target / path.name).read_bytes() == path.read_bytes()
        for path in (roots / "tree").iterdir()
    )
    objects = [path for path in (tmp_path / "cache/files/files").rglob("*") if path.is_file()]
    assert objects == [] and largest_cached_bytes(tmp_path) < len(LARGE)
    master.asked.clear()
    assert run(far, "recurse", target, source="salt://tree").changes == {}
    assert master.asked == []
    (roots / "tree/7").write_text("file seven\n")
    (target / "8").write_text("edited\n")
    changes = run(far, "recurse", target, source="salt://tree").changes
    assert set(changes) == {str(target / "7"), str(target / "8")}
    assert sorted(master.asked) == ["tree/7", "tree/8"]


def test_get_file_writes_a_large_file_to_its_destination(
    far: Context, roots: Path, tmp_path: Path, master: Master
) -> None:
    (roots / "large").write_bytes(LARGE)
    target = tmp_path / "got"
    assert cp.get_file(far, "salt://large", str(target)) == str(target)
    assert target.read_bytes() == LARGE and largest_cached_bytes(tmp_path) < len(LARGE)
    asked = len(master.asked)
    assert cp.get_file(far, "salt://large", str(target)) == str(target)
    assert len(master.asked) == asked
    assert cp.get_file(far, "salt://large", str(tmp_path / "no/where")) == ""
    assert len(master.asked) == asked
    held = cp.cache_file(far, "salt://large")
    assert Path(held).read_bytes() == LARGE
    asked = len(master.asked)
    assert cp.get_url(far, "salt://large", str(tmp_path / "other")) == str(tmp_path / "other")
    assert len(master.asked) == asked
