"""The time limit of a test holds for coroutines as well, under the settings of this suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANGS = {
    "waits": "await asyncio.Event().wait()",
    "blocks": "threading.Event().wait()",
    "leaves_a_task": "await asyncio.gather(asyncio.Event().wait(), asyncio.sleep(0))",
}


def test_hanging_coroutine_is_ended_and_the_next_test_runs(tmp_path: Path) -> None:
    text = "import asyncio, threading\n"
    for name, statement in HANGS.items():
        text += f"async def test_{name}():\n    {statement}\n"
        text += f"async def test_next_of_{name}():\n    await asyncio.sleep(0)\n"
    (tmp_path / "test_hangs.py").write_text(text)
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "--timeout=2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("Timeout (>2.0s) from pytest-timeout") >= len(HANGS)
    for name in HANGS:
        assert re.search(rf"^FAILED .*::test_{name}\b", done.stdout, re.MULTILINE)
        assert re.search(rf"^PASSED .*::test_next_of_{name}$", done.stdout, re.MULTILINE)
