"""The commands of the README and of how-tos work as printed on a booted Debian 12."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import wait_for

from tests.support.booted import Booted, booted_from
from tests.support.debian_roots import overlay

pytestmark = [
    pytest.mark.container,
    pytest.mark.roots("bookworm", "bookworm-venv"),
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).parents[2]
HOME = "/root/catena"
ENVIRONMENT = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": f"{HOME}/wheelhouse",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "HOME": "/root",
}
SKIPPED = (".git", ".venv", "build", "dist", "*.egg-info", ".*_cache", "__pycache__", "tests")


def block(page: Path, after: str) -> list[str]:
    """Return the lines of the first indented block of *page* behind the text *after*."""
    text = page.read_text(encoding="utf-8").partition(after)[2]
    found = re.search(r"((?:^    .*\n|^\n)+)", text, re.MULTILINE)
    while found and not found[1].strip():
        text = text[found.end() :]
        found = re.search(r"((?:^    .*\n|^\n)+)", text, re.MULTILINE)
    assert found, f"{page.name}: no commands behind {after!r}"
    return [line.strip() for line in found[1].splitlines() if line.strip()]


class Machine:
    """A booted machine on which a person types."""

    def __init__(self, booted: Booted) -> None:
        self._booted = booted

    def types(self, line: str) -> str:
        """Run *line* as root's shell does; return its output.

        Raises:
            AssertionError: it failed.
        """
        done = self._booted.cmd_run_all(
            ["bash", "-c", f"cd {HOME} && {line}"], env=ENVIRONMENT, timeout=300
        )
        assert done["retcode"] == 0, f"{line}\n{done['stdout']}{done['stderr']}"
        return str(done["stdout"])


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    source = tmp_path_factory.mktemp("source") / "catena"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
    subprocess.run(
        ["make", "-s", "wheelhouse", f"PYTHON={sys.executable}", "PYTHONS=3.11"],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("readme")
    with overlay(folder / "system", entered=False, packages="venv") as root:
        home = root.path / HOME.lstrip("/")
        shutil.copytree(source / "packaging", home / "packaging")
        shutil.copytree(source / "dist/wheelhouse", home / "wheelhouse")
        for wheel in (source / "dist").glob("catena-*.whl"):
            shutil.copy(wheel, home)
        with booted_from(root, folder / "console") as booted:
            yield Machine(booted)


def test_readme_commands_install_a_working_master_and_minion(machine: Machine) -> None:
    readme = ROOT / "README.md"
    for line in block(readme, "On the master (Python"):
        machine.types(line)
    finger = machine.types("catena key finger").split()[-1]
    # Both parts on one machine here: the second installation makes the same link.
    machine.types("rm /usr/bin/catena")
    for line in block(readme, "On each host (Python"):
        if line.startswith("# Now set"):
            machine.types(
                "sed -i 's/^master: .*/master: 127.0.0.1/; "
                f"s/^#master_finger: .*/master_finger: {finger}/; "
                "s/^#id: .*/id: web1/' /etc/catena/minion"
            )
        else:
            machine.types(line)
    wait_for("the key", lambda: "web1" in machine.types("catena key list"))
    for line in block(readme, "Back on the master:"):
        machine.types(line)
    assert machine.types("catena run web1 test.ping --out txt").strip() == "web1: true"
    for mode in machine.types("stat -c %a /etc/catena/pki /etc/catena/minion").split():
        assert int(mode, 8) & 0o077 == 0


def test_commands_of_the_enrolment_howto_work_as_printed(machine: Machine) -> None:
    page = ROOT / "docs/howto/enrol-minions.md"
    assert "token" not in machine.types(block(page, "## Accept by a token")[0]).split("\n")[0]
    for line in block(page, "## Refuse, forget"):
        machine.types(line)
    wait_for("the key", lambda: "pending" in machine.types("catena key list web1"))
    for line in block(page, "## Two hosts, one name"):
        machine.types(line)
    machine.types("catena run web1 test.ping")
    for line in block(page, "## Change keys"):
        machine.types(line)

    def answers() -> bool:
        return "True" in machine.types("catena run web1 test.ping -t 5 || true")

    wait_for("the minion with its new key", answers)
