"""The last version with schema 0011, as tests run it beside the present one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

from tests.support.debian_roots import require

#: Last commit with schema 0011.
COMMIT = "6794b20"
#: What its wheel calls itself here: it had the same version as those that follow it.
VERSION = "0.0.11"
_TREE = Path(__file__).parents[2]


def source(folder: Path) -> Path:
    """Unpack that version's source from the repository's history; skip where it is not there."""
    archive, target = folder / "old.tar", folder / "source"
    argv = ["git", "-C", str(_TREE), "archive", "-o", str(archive), COMMIT]
    if subprocess.run(argv, stderr=subprocess.DEVNULL).returncode:
        require(f"commit {COMMIT} is not in this repository's history")
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="tar")
    archive.unlink()
    return target


def python(folder: Path) -> Path:
    """Return a Python that has that version and what it depends on.

    PYTHONPATH would not do: daemons start their helpers isolated (-I).
    """
    installed = _installed(folder)
    venv.create(folder / "venv", symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder / "venv")})
    # Of this environment's folder only the packages are seen, not its link to the present code.
    lines = f"{installed}\n{sysconfig.get_paths()['purelib']}\n"
    Path(paths["purelib"], "old.pth").write_text(lines, "utf-8")
    return folder / "venv" / "bin" / "python"


def _installed(folder: Path) -> Path:
    """Build that version's wheel and unpack it."""
    tree = source(folder)
    named = tree / "catena" / "__init__.py"
    named.write_text(f'"""catena."""\n\n__version__ = "{VERSION}"\n', "utf-8")
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*argv, "--wheel-dir", str(folder), str(tree)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PIP_NO_INDEX": "1"},
    )
    if done.returncode:
        require(f"the old version's wheel can't be built: {done.stderr[-300:]}")
    (wheel,) = folder.glob(f"catena-{VERSION}-*.whl")
    target = folder / "installed"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(target)
    return target
