"""file.* functions that look; expected values are those that Salt 3008.5 gave."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import FunctionMark, Registry, StateMark
from catena.fileserver.roots import RootsClient
from catena.runtime.session import execution_index


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "t.txt").write_text("{{ x }}\n")
    functions = Registry("function", execution_index(), FunctionMark)
    files = RootsClient({"base": [tmp_path / "root"]})
    host = cast(Any, SimpleNamespace(conf_dir=tmp_path, cache_dir=tmp_path / "cache"))
    return Context({}, {}, {}, functions, Registry("state", {}, StateMark), files, host)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "d"
    (found / "sub").mkdir(parents=True)
    (found / "f.txt").write_text("one\ntwo\n")
    (found / "sub" / "x").write_text("12345")
    (found / "broken").symlink_to("nowhere")
    os.mkfifo(found / "pipe")
    return found


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("join", ["/a", "b", "c"], "/a/b/c"),
        ("join", ["a", "/b"], "/b"),
        ("join", ["/a/", "b/"], "/a/b/"),
        ("directory_exists", [""], False),
        ("file_exists", [""], False),
        ("uid_to_user", [0], "root"),
        ("uid_to_user", [4000000], 4000000),
        ("gid_to_group", ["x"], ""),
        ("user_to_uid", ["nobody-of-that-name"], ""),
        ("group_to_gid", ["root"], 0),
        ("is_chrdev", ["/dev/null"], True),
        ("is_blkdev", ["/dev/null"], False),
        ("get_devmm", ["/dev/null"], (1, 3)),
        ("source_list", ["salt://t.txt", "h", "base"], ("salt://t.txt", "h")),
        ("source_list", [["salt://no", "salt://t.txt"], "", "base"], ("salt://t.txt", "")),
        ("source_list", [[{"salt://t.txt": "md5=1"}], "", "base"], ("salt://t.txt", "md5=1")),
        ("apply_template_on_contents", ["a {{ x }}", "jinja", {"x": 1}, {"x": 2}, "base"], "a 1"),
    ],
)
def test_file_function_returns_the_value_of_salt(
    context: Context, fun: str, args: list[Any], value: Any
) -> None:
    assert context.call(f"file.{fun}", *args) == value


def test_kinds_sizes_and_modes_are_returned(context: Context, folder: Path) -> None:
    assert context.call("file.is_fifo", str(folder / "pipe")) is True
    assert context.call("file.is_fifo", str(folder / "f.txt")) is False
    assert context.call("file.diskusage", str(folder)) == 13
    assert context.call("file.get_mode", str(folder / "broken")) == "0777"
    assert context.call("file.lstat", str(folder / "f.txt"))["st_size"] == 8
    assert context.call("file.lstat", str(folder / "no")) == {}
    assert context.call("file.seek_read", str(folder / "f.txt"), 3, 2) == b"e\nt"
    assert context.call("file.search", str(folder / "f.txt"), "TWO", flags=["IGNORECASE"]) is True


def test_search_shows_paths_as_they_were_given(context: Context, folder: Path) -> None:
    found = context.call("file.find", f"{folder}/", type="d")
    assert found == [f"{folder}/", f"{folder}/sub"]
    assert context.call("file.find", str(folder), regex="x$", print="name") == ["x"]
    assert context.call("file.find", str(folder), regex=".*/x$") == []


def test_search_follows_links_but_deletes_only_the_links(context: Context, folder: Path) -> None:
    (folder / "lnk").symlink_to("f.txt")
    found = context.call("file.find", str(folder), type="f", print="name")
    assert found == ["f.txt", "lnk", "x"]
    assert context.call("file.find", str(folder), type="l", print="name") == ["broken"]
    assert context.call("file.find", f"{folder}/s*", type="f") == [f"{folder}/sub/x"]
    assert context.call("file.find", str(folder), name="lnk", delete="f") == []
    assert context.call("file.find", str(folder), name="lnk", delete="l") == [f"{folder}/lnk"]
    assert (folder / "f.txt").exists()
    assert not (folder / "lnk").is_symlink()


def test_two_files_are_compared(context: Context, folder: Path, tmp_path: Path) -> None:
    file = str(folder / "f.txt")
    assert context.call("file.get_diff", file, file) == ""
    assert context.call("file.get_diff", file, "salt://t.txt").splitlines()[2:] == [
        "@@ -1,2 +1 @@",
        "-one",
        "-two",
        "+{{ x }}",
    ]
    with pytest.raises(CommandExecutionError):
        context.call("file.get_diff", file, "salt://no")


def test_list_of_hashes_is_read(context: Context, tmp_path: Path) -> None:
    digest = "0" * 64
    (tmp_path / "sums").write_text(f"{digest}  other\n{'1' * 64}  t.txt\n")
    found = context.call("file.extract_hash", str(tmp_path / "sums"), file_name="/x/t.txt")
    assert found == {"hsum": "1" * 64, "hash_type": "sha256"}
