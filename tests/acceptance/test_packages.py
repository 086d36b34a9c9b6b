"""The package actions of a chain, with a real apt in a Debian root of the test's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from fleet import Fleet

from tests.acceptance.conftest import make_fleet, running
from tests.integration.packages.repositories import deb, publish_debs
from tests.support.debian_roots import Root, overlay

pytestmark = [pytest.mark.container, pytest.mark.roots("bookworm")]

#: What the apt provider calls; each goes into the root.
TOOLS = ("apt-get", "apt-cache", "apt-mark", "dpkg", "dpkg-query")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    with overlay(tmp_path_factory.mktemp("apt") / "system") as found:
        deb(found, "alpha", "1.0")
        deb(found, "beta", "1.0")
        publish_debs(found)
        yield found


@pytest.fixture(scope="module")
def fleet(root: Root) -> Iterator[Fleet]:
    made = make_fleet({})
    made.add("deb1", {"providers.pkg": "apt"})
    tools = made.folder / "tools"
    tools.mkdir()
    for name in TOOLS:
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec chroot {root.path} /usr/bin/{name} "$@"\n')
        tool.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
        yield from running(made)


def chain(fleet: Fleet, label: str, *action: str) -> tuple[int, str]:
    fleet.catena("chain", "create", label)
    fleet.catena("chain", "add", label, "-t", "deb1", *action)
    done = fleet.catena("chain", "schedule", label, "--watch", check=False)
    return done.returncode, done.stdout


def versions(root: Root) -> dict[str, str]:
    found = {}
    for name in ("alpha", "beta"):
        path = root.path / f"usr/share/{name}/version"
        found[name] = path.read_text().strip() if path.exists() else ""
    return found


def test_packages_are_installed_upgraded_and_removed(fleet: Fleet, root: Root) -> None:
    code, out = chain(fleet, "in", "--install", "alpha", "--install", "beta=1.0")
    assert (code, versions(root)) == (0, {"alpha": "1.0", "beta": "1.0"}), out
    deb(root, "alpha", "2.0")
    deb(root, "beta", "2.0")
    publish_debs(root)
    code, out = chain(fleet, "up", "--upgrade", "alpha")
    assert (code, versions(root)) == (0, {"alpha": "2.0", "beta": "1.0"}), out
    assert "alpha" in json.dumps(
        json.loads(fleet.catena("chain", "show", "up", "--out", "json").stdout)["minions"]
    )
    code, out = chain(fleet, "out", "--remove", "alpha", "--remove", "beta")
    assert (code, versions(root)) == (0, {"alpha": "", "beta": ""}), out


def test_missing_package_fails_with_the_message_of_the_package_manager(fleet: Fleet) -> None:
    code, out = chain(fleet, "no", "--install", "no-such-package")
    assert code == 1
    assert "no-such-package" in out and "Failed" in out


def test_package_of_the_agent_ends_a_chunk(fleet: Fleet) -> None:
    fleet.catena("chain", "create", "agent")
    for action in (["--install", "catena-minion"], ["--cmd", "true"]):
        fleet.catena("chain", "add", "agent", "-t", "deb1", *action)
    files = json.loads(fleet.catena("chain", "render", "agent", "--out", "json").stdout)["files"]
    assert [file["boundary"] for file in files] == ["agent_upgrade", "none"]
    assert "clean_action_chain_if_previous_failed" in files[0]["text"]
    assert files[1]["text"].startswith("pkg_installed:")
