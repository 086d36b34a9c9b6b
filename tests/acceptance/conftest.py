"""A fleet of real processes for tests that drive the installed command."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet

STATES = {
    "top.sls": "base:\n  '*':\n  - base\n",
    "base.sls": (
        "{{ opts['root_dir'] }}/base.txt:\n"
        "  file.managed:\n"
        "  - contents: {{ grains['id'] }} {{ pillar.get('colour', 'grey') }}\n"
    ),
    "broken.sls": "a:\n  file.managed:\n  - contents: {{ nowhere }}\n",
    "failing.sls": "fails:\n  cmd.run:\n  - name: 'false'\n",
}
PILLAR = {
    "top.sls": "base:\n  'web*':\n  - web\n  'db*':\n  - db\n",
    "web.sls": "colour: blue\n",
    "db.sls": "colour: red\n",
}


def write_tree(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_fleet(
    names: Mapping[str, Mapping[str, Any]],
    pythons: Mapping[str, str] | None = None,
    **master: Any,
) -> Fleet:
    """Return a fleet in a folder whose path is short enough for unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    write_tree(folder / "states", STATES)
    write_tree(folder / "pillar", PILLAR)
    settings = {
        "file_roots": {"base": [str(folder / "states")]},
        "pillar_roots": {"base": [str(folder / "pillar")]},
        **master,
    }
    return Fleet(folder, names, settings, pythons=pythons)


def running(fleet: Fleet) -> Iterator[Fleet]:
    """Yield *fleet* with all its minions up; end it afterwards."""
    try:
        with fleet:
            fleet.start_master()
            fleet.start_minions()
            fleet.accept_all()
            yield fleet
    finally:
        shutil.rmtree(fleet.folder, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    """Show with a failed test what the daemons of its fleet have logged."""
    outcome: Any = yield
    report = outcome.get_result()
    fleet = getattr(item, "funcargs", {}).get("fleet")
    if report.failed and isinstance(fleet, Fleet):
        logs = [*fleet.folder.rglob("*.log"), *fleet.folder.rglob("log/catena/*")]
        for log in sorted(path for path in logs if path.is_file()):
            report.sections.append((str(log), log.read_text(errors="replace")[-4000:]))


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    names = {"web1": {"role": "web"}, "web2": {"role": "web"}, "db1": {"role": "db"}}
    yield from running(make_fleet(names))
