"""No built-in state changes anything in test mode.

Each state function is called with arguments by which it would change something: once in test
mode, and once as a function that never looks at test mode. Both times nothing in the sandbox
changes, and no function that changes something and no command gets past the guard.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.dry_run import TestModeError, refusing_changes
from catena.core.frozen import replace
from catena.core.plugins import BUILT_IN, Plugin, Registry
from catena.core.types import StateResult
from catena.modules import cron, debconf
from catena.modules.npm import program as npm
from catena.modules.npm.program import NodePackage
from catena.modules.pip import program as pip
from catena.modules.pkg.repos import apt
from catena.modules.shared.command import process
from catena.runtime.session import JobSession, state_registry
from catena.states import blockdev
from catena.states import pkg as pkg_states
from tests.unit.runtime.state_calls import ANSWERS, EXAMPLES, Example

REFUSED = "test mode refused to"


#: Called by the run itself, before any state; it gets low states and no name.
_NOT_STATES = {"iptables.mod_aggregate", "pkg.mod_aggregate"}
#: What it removes lies in the agent's own cache, which the guard leaves to the agent.
_OWN_CACHE = {"file.not_cached"}


def _label(example: Example) -> str:
    return f"{example.fun}-{EXAMPLES.index(example)}"


@dataclass
class FakeTool:
    """A package manager that answers questions, and runs a command to fetch its indexes."""

    context: Context

    name = "fake"

    def installed(self) -> dict[str, list[str]]:
        return {"present": ["1"], "locked": ["1"]}

    def candidates(self, names: list[str]) -> dict[str, str]:
        return dict.fromkeys(names, "2")

    def compare(self, left: str, right: str) -> int:
        return (left > right) - (left < right)

    def refresh(self) -> None:
        self.context.call("cmd.run_all", ["apt-get", "update"], python_shell=False)


class Watched(Registry):
    """The built-in functions; one that changes something is not called, but written down."""

    def __init__(self, real: Registry, passed: list[str]) -> None:
        super().__init__("function", {}, type(None))
        self._real = real
        self._passed = passed

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        return self._real.module(prefix)

    def refusal(self, prefix: str) -> str:
        return self._real.refusal(prefix)

    def __getitem__(self, name: str) -> Plugin:
        plugin = self._real[name]
        assert plugin.origin == BUILT_IN
        if name in ANSWERS:
            assert plugin.mark.reads
            return replace(plugin, call=ANSWERS[name])
        if plugin.mark.reads or name == "cmd.run_all":
            return plugin

        def call(*args: Any, **kwargs: Any) -> Any:
            self._passed.append(name)
            return True

        return replace(plugin, call=call)


@dataclass
class Sandbox:
    """A folder with something of everything, and what got past the guard."""

    folder: Path
    context: Context
    passed: list[str]

    def filled(self, value: Any) -> Any:
        """Return *value* with the sandbox's path in its texts."""
        if isinstance(value, str):
            return value.replace("{s}", str(self.folder))
        if isinstance(value, dict):
            return {self.filled(key): self.filled(each) for key, each in value.items()}
        return [self.filled(each) for each in value] if isinstance(value, list) else value

    def prepare(self, example: Example) -> None:
        if example.fun.startswith("git."):
            _clone(self.folder)

    def call(self, example: Example, context: Context) -> StateResult:
        state = state_registry()[example.fun]
        found: StateResult = state.call(
            context, self.filled(example.name), **self.filled(dict(example.args))
        )
        return found

    def tree(self) -> dict[str, tuple[Any, ...]]:
        """Return what is there: mode, owner, links, time, content, target."""
        found: dict[str, tuple[Any, ...]] = {}
        for path in [self.folder, *sorted(self.folder.rglob("*"))]:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            target = str(path.readlink()) if path.is_symlink() else ""
            found[str(path)] = (
                *(status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns),
                *(content, target),
            )
        return found


def _git(*words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _clone(folder: Path) -> None:
    """Make a repository and a clone that lacks its last commit."""
    _git("init", "-q", "-b", "main", str(folder / "origin"))
    _git("-C", str(folder / "origin"), "commit", "-q", "--allow-empty", "-m", "one")
    _git("clone", "-q", str(folder / "origin"), str(folder / "behind"))
    _git("-C", str(folder / "origin"), "commit", "-q", "--allow-empty", "-m", "two")


_CRONTAB = "# Lines below here are managed by Salt, do not edit\nOLD=1\n* * * * * old\n"
_PATCH = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n #c = 3\n"


def _furnish(folder: Path) -> None:
    for name in ("folder", "empty"):
        (folder / name).mkdir()
    for number in range(3):
        (folder / "folder" / f"backup{number}").write_text("x")
    (folder / "file").write_text("a = 1\nb = 2\n#c = 3\n")
    (folder / "script.sh").write_text(f"#!/bin/sh\ntouch {folder}/scripted\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "link").symlink_to(folder / "file")
    (folder / "a.ini").write_text("[s]\nk = 1\n")
    (folder / "data.json").write_text("{}\n")
    (folder / "keys").write_text("ssh-rsa AAAAC3Nz old\n")
    (folder / "apt" / "sources.list.d").mkdir(parents=True)
    (folder / "apt" / "sources.list").write_text("deb http://old.example/x y main\n")
    (folder / "rotate").write_text("rotate 4\n")
    (folder / "aliases").write_text("old: root\n")
    (folder / "fstab").write_text(f"/dev/old {folder}/mnt ext4 defaults 0 0\n")
    (folder / "known").write_text("old ssh-rsa AAAAC3Nz\n")
    (folder / "hosts").write_text("192.0.2.1 old.example.org\n")
    (folder / "a.patch").write_text(
        "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n #c = 3\n"
    )
    with tarfile.open(folder / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("inside.txt")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    old = time.time() - 3 * 86400
    for path in folder.rglob("*"):
        os.utime(path, (old, old), follow_symlinks=False)


@pytest.fixture
def sandbox(
    session: JobSession, roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sandbox]:
    folder = tmp_path / "sandbox"
    folder.mkdir()
    _furnish(folder)
    (roots / "tree").mkdir()
    (roots / "tree" / "one").write_text("1")
    monkeypatch.setenv("SANDBOX", str(folder))
    passed: list[str] = []
    start = process._start

    def started(command: process.Command) -> Any:
        # The guard's event, before a command that it lets through can do any harm here.
        sys.audit("subprocess.Popen", command.argv[0], list(command.argv), None, None)
        if command.argv[0] not in ("git", "openssl") and "--dry-run" not in command.argv:
            passed.append(" ".join(command.argv))
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    monkeypatch.setattr(pkg_states, "provider", lambda context: FakeTool(context))
    present = {"present": NodePackage("present", "1.0.0")}
    monkeypatch.setattr(npm, "installed", lambda context, made, fresh=False: present)
    monkeypatch.setattr(pip, "installed", lambda context, made, fresh=False: {})
    monkeypatch.setattr(apt, "FOLDER", folder / "apt")
    monkeypatch.setattr(debconf, "selections", dict)
    monkeypatch.setattr(blockdev, "_is_block", lambda name: True)
    monkeypatch.setattr(cron, "load", lambda context, user: cron.parse(_CRONTAB))
    monkeypatch.setattr(shutil, "which", lambda name, **path: f"{folder}/script.sh")
    context = session.context
    grains = {**context.grains, "many": ["x", "y"]}
    made = context.with_(
        functions=Watched(context.functions, passed),
        grains=grains,
        opts={
            **context.opts,
            "hosts.file": str(folder / "hosts"),
            "aliases.file": str(folder / "aliases"),
        },
    )
    yield Sandbox(folder, made, passed)


def test_there_is_an_example_of_every_state_function() -> None:
    known = {example.fun for example in EXAMPLES}
    assert known | _NOT_STATES | _OWN_CACHE == set(state_registry().names())


@pytest.mark.parametrize("example", EXAMPLES, ids=_label)
def test_state_changes_nothing_in_test_mode(sandbox: Sandbox, example: Example) -> None:
    sandbox.prepare(example)
    before, variables = sandbox.tree(), dict(os.environ)
    context = sandbox.context.with_(test=True)
    with context.state_guard(BUILT_IN):
        found = sandbox.call(example, context)
    assert REFUSED not in found.comment
    assert sandbox.passed == []
    assert sandbox.tree() == before
    assert dict(os.environ) == variables
    if example.changes:
        assert found.result is None, found


@pytest.mark.parametrize("example", EXAMPLES, ids=_label)
def test_guard_holds_back_a_state_that_never_asks_for_test_mode(
    sandbox: Sandbox, example: Example
) -> None:
    sandbox.prepare(example)
    before, variables = sandbox.tree(), dict(os.environ)
    with refusing_changes((str(sandbox.context.host.cache_dir),)):
        try:
            found = sandbox.call(example, sandbox.context)
            told = found.comment
        except TestModeError as error:
            told = str(error)
    assert sandbox.passed == []
    assert sandbox.tree() == before
    assert dict(os.environ) == variables
    if example.changes:
        assert REFUSED in told
