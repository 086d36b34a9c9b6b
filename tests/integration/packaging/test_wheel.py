"""The wheel and the wheel made from the source archive contain all files of the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SKIPPED = (".git", ".venv", "build", "dist", "*.egg-info", ".*_cache", "__pycache__")


def build(source: Path, kind: str, target: Path) -> Path:
    """Run the build backend in *source*; return the file that it made."""
    code = f"from setuptools.build_meta import build_{kind} as b; import sys; b(sys.argv[1])"
    target.mkdir()
    subprocess.run(
        [sys.executable, "-c", code, str(target)], cwd=source, check=True, capture_output=True
    )
    (made,) = target.iterdir()
    return made


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source") / "catena"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
    return copy


def test_every_module_and_data_file_is_in_the_wheel(source: Path, tmp_path: Path) -> None:
    packed = names(build(source, "wheel", tmp_path / "wheels"))
    mounts = [entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink()]
    wanted = {
        f"catena/{mount.name}/{path.relative_to(mount.resolve())}"
        for mount in mounts
        for path in mount.resolve().rglob("*")
        if path.is_file() and path.suffix in {".py", ".sls", ".sh", ".mako"}
    }
    wanted |= {"catena/__init__.py", "catena/__main__.py", "catena/py.typed"}
    assert wanted - packed == set()
    assert not {name for name in packed if name.startswith(("tests/", "examples/"))}


def test_source_archive_builds_the_same_wheel(source: Path, tmp_path: Path) -> None:
    direct = names(build(source, "wheel", tmp_path / "direct"))
    archive = build(source, "sdist", tmp_path / "archive")
    # Python 3.11 before 3.11.4 knows no filter, and the archive is our own.
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    assert names(build(folder, "wheel", tmp_path / "again")) == direct
