"""The time limit of a test holds for coroutines as well, under the settings of this suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANGS = {
    "waits": "await asyncio.Event().wait()",
    "blocks": "threading.Event().wait()",
    "leaves a task": "await asyncio.gather(asyncio.Event().wait(), asyncio.sleep(0))",
}


@pytest.mark.parametrize("statement", HANGS.values(), ids=HANGS)
def test_hanging_coroutine_is_ended_and_the_next_test_runs(tmp_path: Path, statement: str) -> None:
    text = f"import asyncio, threading\nasync def test_hangs():\n    {statement}\n"
    text += "async def test_next():\n    await asyncio.sleep(0)\n"
    (tmp_path / "test_hangs.py").write_text(text)
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "--timeout=0.5"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout (>0.5s) from pytest-timeout" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
