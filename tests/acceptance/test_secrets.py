"""Secret arguments appear in no command line, log or stored file."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet, wait_for

from tests.acceptance.conftest import make_fleet, running

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    made = make_fleet({"web1": {}})
    module = made.folder / "states/_modules/vault.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import os\n"
        "def keep(user, password=None):\n    return len(password or '')\n"
        "def die(user, password=None):\n    os._exit(3)\n"
    )
    yield from running(made)


class Watch:
    """Reads every command line of this host, again and again."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._seen: set[str] = set()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._ended.is_set():
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    text = file.read_bytes()
                    if SECRET.encode() in text:
                        self._seen.add(text.decode(errors="replace"))

    def __enter__(self) -> set[str]:
        self._thread.start()
        return self._seen

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def ask(fleet: Fleet, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "catena", "-c", str(fleet.config), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )


def test_secret_is_neither_visible_nor_stored(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "kwargs.yaml"
    file.write_text(f"password: {SECRET}\n")
    fleet.catena("run", "web1", "saltutil.sync_modules")
    with Watch() as seen:
        by_file = ask(fleet, "run", "web1", "vault.keep", "joe", "--kwargs-file", str(file))
        by_stdin = ask(
            fleet, "run", "web1", "vault.keep", "joe", "--stdin", input=file.read_text()
        )
        ended = ask(fleet, "run", "web1", "vault.die", "joe", "--kwargs-file", str(file))
    assert seen == set()
    for done in (by_file, by_stdin):
        assert (done.returncode, done.stderr) == (0, "")
        assert str(len(SECRET)) in done.stdout
    assert "interrupted" in ended.stdout + ended.stderr
    jobs = json.loads(fleet.catena("job", "list", "--out", "json").stdout)
    shown = [fleet.catena("job", "show", row["jid"], "--out", "json").stdout for row in jobs]
    assert SECRET not in json.dumps(jobs) + "".join(shown)
    assert any("**********" in text for text in shown)


def test_running_job_does_not_expose_its_secret(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "kwargs.yaml"
    file.write_text(f"env: {{DB_PASSWORD: {SECRET}}}\n")
    words = ("run", "web1", "cmd.run", "sleep 30", "--kwargs-file", str(file), "--async")
    assert ask(fleet, *words).returncode == 0

    def described() -> str:
        found = fleet.catena("run", "web1", "saltutil.running", "--out", "json").stdout
        return found if "cmd.run" in found else ""

    found = wait_for("the job", described)
    assert SECRET not in found
    fleet.catena("run", "web1", "saltutil.kill_all_jobs", check=False)
