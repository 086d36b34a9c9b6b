from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Prints which modules a template has that serves jobs of one module.
SERVE = """
import sys
from pathlib import Path
from catena.core.config.minion import MinionSettings
from catena.minion.worker import warm
from catena.minion.start.blob import StartData

folder = Path(sys.argv[1])
settings = MinionSettings(
    cache_dir=str(folder / "c"), run_dir=str(folder / "r"), pki_dir=str(folder / "p")
)
warm.rehearse(StartData(settings, "m1", "mach1", str(folder), grains={"id": "m1"}))
warm.bring(sys.argv[2])
print("\\n".join(sys.modules))
"""


def loaded(folder: Path, module: str) -> set[str]:
    argv = [sys.executable, "-c", SERVE, str(folder), module]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["cmd", "test", "nothing_of_ours"])
def test_template_that_forks_commands_has_no_states(tmp_path: Path, module: str) -> None:
    heavy = {"jinja2", "yaml", "tarfile", "catena.states.compiler.api", "zmq", "asyncio"}
    assert not heavy & loaded(tmp_path, module)


def test_template_that_forks_state_runs_has_what_they_need(tmp_path: Path) -> None:
    needed = {"jinja2", "yaml", "catena.states.compiler.api", "catena.states.file"}
    assert needed <= loaded(tmp_path, "state")


def test_idle_agent_loads_nothing_that_only_jobs_need() -> None:
    heavy = "inspect dataclasses yaml jinja2 logging asyncio hashlib subprocess ssl sqlite3 ctypes"
    code = f"import catena.minion.daemon, sys; print(set('{heavy}'.split()) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
