from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.types import StateResult

MakeTar = Callable[..., Path]


@pytest.fixture
def make_tar(tmp_path: Path) -> MakeTar:
    """Return a tar of members: name -> text, None (folder), or (kind, target)."""

    def make(members: dict[str, Any], name: str = "a.tar.gz") -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w:gz") as tape:
            for member, what in members.items():
                info = tarfile.TarInfo(member)
                info.mode = 0o755 if what is None else 0o640
                info.uid, info.gid = os.geteuid(), os.getegid()
                data = what.encode() if isinstance(what, str) else b""
                info.size = len(data)
                if what is None:
                    info.type = tarfile.DIRTYPE
                elif isinstance(what, tuple):
                    info.type, info.linkname = what
                tape.addfile(info, io.BytesIO(data))
        return path

    return make


def extracted(context: Context, target: Path, source: Path, **options: Any) -> StateResult:
    state = context.states["archive.extracted"]
    result: StateResult = state.call(context, str(target), source=str(source), **options)
    return result


def test_archive_is_extracted_once(context: Context, tmp_path: Path, make_tar: MakeTar) -> None:
    source, target = make_tar({"top": None, "top/a": "text", "top/l": (b"2", "a")}), tmp_path / "t"
    planned = extracted(context.with_(test=True), target, source)
    assert (planned.result, target.exists()) == (None, False)
    assert extracted(context, target, source).changes["extracted_files"] == [
        "top",
        "top/a",
        "top/l",
    ]
    assert (target / "top/a").read_text() == "text"
    assert (target / "top/a").stat().st_mode & 0o777 == 0o640
    assert (target / "top/l").readlink() == Path("a")
    assert extracted(context, target, source).changes == {}


def test_leading_folders_of_an_archive_are_stripped(
    context: Context, tmp_path: Path, make_tar: MakeTar
) -> None:
    source = make_tar({"v1": None, "v1/bin": None, "v1/bin/x": "x"})
    result = extracted(context, tmp_path / "t", source, options="--strip-components=1")
    assert result.result and (tmp_path / "t/bin/x").read_text() == "x"
    refused = extracted(context, tmp_path / "u", source, options="--checkpoint-action=exec=id")
    assert refused.result is False and "--checkpoint" in refused.comment


@pytest.mark.parametrize(
    "members",
    [
        {"../out": "x"},
        {"/tmp/out": "x"},
        {"a/../../out": "x"},
        {"d": (b"2", ".."), "d/out": "x"},
        {"d": (b"2", "/"), "d/out": "x"},
        {"h": (b"1", "../secret")},
        {"n": (b"3", "")},
    ],
)
def test_archive_member_outside_the_target_is_refused(
    context: Context, tmp_path: Path, make_tar: MakeTar, members: dict[str, Any]
) -> None:
    (tmp_path / "secret").write_text("s")
    target = tmp_path / "t" / "deep"
    extracted(context, target, make_tar(members), enforce_toplevel=False)
    assert not (tmp_path / "t" / "out").exists()
    assert not (tmp_path / "out").exists()
    assert not Path("/out").exists() and not (target / "h").exists()


def test_archive_member_is_not_written_through_an_existing_link(
    context: Context, tmp_path: Path, make_tar: MakeTar
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "top").symlink_to(outside)
    source = make_tar({"top": None, "top/a": "x"})
    result = extracted(context, tmp_path / "t", source)
    assert result.result is False and "through a link" in result.comment
    assert not (outside / "a").exists()


def test_zip_file_keeps_modes(context: Context, tmp_path: Path) -> None:
    source = tmp_path / "z.zip"
    with zipfile.ZipFile(source, "w") as pack:
        info = zipfile.ZipInfo("d/run")
        info.external_attr = 0o100755 << 16
        pack.writestr(info, "#!/bin/sh\n")
    assert extracted(context, tmp_path / "t", source).result
    assert (tmp_path / "t/d/run").stat().st_mode & 0o777 == 0o755


def test_broken_archive_is_reported(context: Context, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_bytes(b"\x1f\x8b no archive")
    result = extracted(context, tmp_path / "t", tmp_path / "b.tar.gz")
    assert result.result is False and "b.tar.gz" in result.comment


def test_archive_is_extracted_again_with_overwrite(
    context: Context, tmp_path: Path, make_tar: MakeTar
) -> None:
    source = make_tar({"top": None, "top/a": "new"})
    extracted(context, tmp_path / "t", source)
    (tmp_path / "t/top/a").write_text("changed by hand")
    assert extracted(context, tmp_path / "t", source).changes == {}
    assert extracted(context, tmp_path / "t", source, overwrite=True).changes
    assert (tmp_path / "t/top/a").read_text() == "new"
