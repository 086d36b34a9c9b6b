from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import ConfigError
from catena.fileserver import index
from catena.fileserver.index import BadPathError, RootOptions, check_path
from catena.fileserver.roots import RootsClient


def test_file_is_found_with_its_hash_size_and_mode(tree: Path) -> None:
    (tree / "app/files/x.conf").chmod(0o750)
    entry = RootsClient({"base": [tree]}).entry("app/files/x.conf")
    assert entry is not None
    assert entry.sha256 == hashlib.sha256(b"x = 1\n").hexdigest()
    assert (entry.path, entry.size, entry.mode, entry.link) == ("app/files/x.conf", 6, 0o750, "")


def test_entries_are_sorted_and_can_be_narrowed_to_a_folder(tree: Path, write: Any) -> None:
    write(tree, {"application/no.sls": ""})
    client = RootsClient({"base": [tree]})
    assert [e.path for e in client.entries()] == [
        "app/files/x.conf",
        "app/init.sls",
        "application/no.sls",
        "top.sls",
    ]
    assert [e.path for e in client.entries(prefix="app")] == ["app/files/x.conf", "app/init.sls"]
    assert [e.path for e in client.entries(prefix="/app/init.sls")] == ["app/init.sls"]


def test_empty_folders_are_listed(tree: Path) -> None:
    (tree / "empty" / "deep").mkdir(parents=True)
    folders = RootsClient({"base": [tree]}).folders()
    assert folders == ["app", "app/files", "empty", "empty/deep"]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    "prefix", ["", "app", "app/files", "app/init.sls", "file", "folder", "hidden/x", "no", "../x"]
)
def test_listing_of_a_prefix_equals_its_part_of_the_whole_listing(
    tree: Path, write: Any, prefix: str, follow: bool
) -> None:
    write(tree, {"hidden/x/f": ""})
    (tree / "file").symlink_to(tree / "app/init.sls")
    (tree / "folder").symlink_to(tree / "app")
    options = RootOptions(ignore_globs=("hidden*",), follow_links=follow)
    roots = index.Roots({"base": [tree]}, options)

    def part(path: str) -> bool:
        return not prefix or path == prefix or path.startswith(prefix + "/")

    files, folders = roots.walk("base")
    assert roots.walk("base", prefix) == (
        [found for found in files if part(found.path)],
        [folder for folder in folders if part(folder)],
    )


def test_first_root_that_has_a_path_wins(tmp_path: Path, write: Any) -> None:
    over = write(tmp_path / "over", {"both": "over"})
    under = write(tmp_path / "under", {"both": "under", "low": "low"})
    client = RootsClient({"base": [over, under]}, extra=[write(tmp_path / "e", {"low": "extra"})])
    texts = [(p, (client.fetch(p) or Path()).read_text()) for p in ("both", "low")]
    assert texts == [("both", "over"), ("low", "low")]
    assert len(client.entries()) == 2


def test_environments_do_not_see_each_other(tmp_path: Path, write: Any) -> None:
    roots = {
        "base": [write(tmp_path / "b", {"f": "b"})],
        "dev": [write(tmp_path / "d", {"g": "d"})],
    }
    client = RootsClient(roots)
    assert client.environments() == ["base", "dev"]
    assert client.fetch("f", "dev") is None
    assert client.fetch("g", "dev") is not None
    assert client.entries("nosuch") == []


def test_one_root_can_serve_every_environment(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "envs/qa", {"f": "qa"})
    client = RootsClient({"__env__": [tmp_path / "envs" / "__env__"]})
    found = client.fetch("f", "qa")
    assert found is not None and found.read_text() == "qa"
    assert client.fetch("f", "../envs/qa") is None


@pytest.mark.parametrize(
    "path", ["", "/", "../secret", "app/../../secret", "a//b", "./a", "a/.", "a\0b", "x" * 1025]
)
def test_paths_that_leave_the_roots_are_none(tree: Path, path: str) -> None:
    (tree.parent / "secret").write_text("s")
    assert RootsClient({"base": [tree]}).fetch(path) is None
    with pytest.raises(BadPathError):
        check_path(path)


@pytest.mark.parametrize("follow", [False, True])
def test_links_out_of_the_roots_are_not_served(tree: Path, follow: bool) -> None:
    (tree.parent / "outside").mkdir()
    (tree.parent / "outside" / "secret").write_text("s")
    (tree / "file").symlink_to(tree.parent / "outside" / "secret")
    (tree / "folder").symlink_to(tree.parent / "outside")
    (tree / "up").symlink_to("..")
    client = RootsClient({"base": [tree]}, RootOptions.of(follow))
    assert [e.path for e in client.entries()] == ["app/files/x.conf", "app/init.sls", "top.sls"]
    for path in ("file", "folder/secret", "up/outside/secret"):
        assert client.fetch(path) is None


def test_links_inside_the_roots_are_served_and_known_as_links(tree: Path) -> None:
    (tree / "link").symlink_to("app/init.sls")
    (tree / "dangling").symlink_to("gone")
    entry = RootsClient({"base": [tree]}).entry("link")
    assert entry is not None and (entry.link, entry.size) == ("app/init.sls", 5)
    assert RootsClient({"base": [tree]}).entry("dangling") is None


def test_linked_folders_are_walked_only_when_wanted_and_never_in_circles(tree: Path) -> None:
    (tree / "other").symlink_to("app")
    (tree / "app" / "circle").symlink_to("..")
    plain = RootsClient({"base": [tree]})
    assert plain.fetch("other/init.sls") is None
    follow = RootsClient({"base": [tree]}, RootOptions.of(True))
    assert follow.fetch("other/init.sls") is not None
    paths = [e.path for e in follow.entries()]
    assert "other/init.sls" in paths
    assert len(paths) == len(set(paths)) < 20


def test_ignored_files_are_neither_listed_nor_served(tree: Path, write: Any) -> None:
    write(tree, {"app/x.pyc": "", ".git/config": "secret", "keep.sls": ""})
    options = RootOptions.of(globs=["*.pyc"], regexes=[r"(^|/)\.git($|/)"])
    client = RootsClient({"base": [tree]}, options)
    assert client.fetch("app/x.pyc") is None
    assert client.fetch(".git/config") is None
    assert "keep.sls" in [e.path for e in client.entries()]
    assert not [e.path for e in client.entries() if ".git" in e.path or ".pyc" in e.path]
    assert ".git" not in client.folders()


def test_wrong_expression_in_the_settings_is_an_error() -> None:
    with pytest.raises(ConfigError, match="file_ignore_regex"):
        RootOptions.of(regexes=["("])


def test_changed_file_has_another_hash_at_once(tree: Path) -> None:
    client = RootsClient({"base": [tree]})
    before = client.entry("top.sls")
    (tree / "top.sls").write_text("base: {}#")
    after = client.entry("top.sls")
    assert before is not None and after is not None and before.sha256 != after.sha256


def test_pipes_and_folders_are_no_files(tree: Path) -> None:
    import os

    os.mkfifo(tree / "pipe")
    client = RootsClient({"base": [tree]})
    assert client.fetch("pipe") is None
    assert client.fetch("app") is None
    assert "pipe" not in [e.path for e in client.entries()]


def test_number_of_cached_hashes_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "HASHES_KEPT", 2)
    cache, read = index.HashCache(), []

    def counted(path: Path) -> str:
        read.append(path.name)
        return path.name

    monkeypatch.setattr(index, "hash_file", counted)
    for name in "abc":
        (tmp_path / name).touch()
    for name in "abcca":
        assert cache(tmp_path / name) == name
    assert read == ["a", "b", "c", "a"]
