"""Builds wheels of this checkout, also as a newer version of catena."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

NEWER = "0.1.99"


def newer_wheel(folder: Path) -> Path:
    """Build this checkout as a newer version."""
    return built_wheel(folder, version=NEWER)


def built_wheel(folder: Path, version: str = "") -> Path:
    """Build a wheel of this checkout in *folder*, as *version* if one is given."""
    source = folder / "source"
    shutil.copytree(
        ROOT, source, symlinks=True,
        ignore=shutil.ignore_patterns(".git", ".venv", "tests", "build", "*.egg-info", ".*_cache"),
    )  # fmt: skip
    if version:
        text = f'"""catena."""\n\n__version__ = "{version}"\n'
        (source / "catena/__init__.py").write_text(text)
    # By the build backend itself: an environment made without ensurepip has no pip in it.
    code = "from setuptools.build_meta import build_wheel; import sys; build_wheel(sys.argv[1])"
    (folder / "wheels").mkdir()
    subprocess.run(
        [sys.executable, "-c", code, str(folder / "wheels")],
        check=True, capture_output=True, cwd=source,
    )  # fmt: skip
    (wheel,) = (folder / "wheels").glob("*.whl")
    return wheel
