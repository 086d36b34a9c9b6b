"""Jobs pushed through a real sshd, also over connections that are cut."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.master import MasterSettings
from catena.core.job import JobSpec
from catena.ssh.connect.connection import open_connection
from catena.ssh.connect.link import Connection
from catena.ssh.connect.target import SshTarget
from catena.ssh.push import job
from tests.support.pushed import Bench
from tests.support.salt_cases import differences, load
from tests.support.ssh_cases import PushedStage
from tests.support.ssh_server import USER, SshServer


@pytest.mark.parametrize("name", ["jinja/salt_calls", "file/recurse", "requisites/prereq_multi"])
def test_recorded_cases_give_the_same_results_through_sshd(server: SshServer, name: str) -> None:
    class Stage(PushedStage):
        """A case whose host is behind the server's noisy shell."""

        def connector(self, bench: Bench) -> Callable[[SshTarget], Connection]:
            def connect(target: SshTarget) -> Connection:
                return open_connection(
                    dataclasses.replace(
                        target,
                        port=server.ports["noisy"],
                        user=USER,
                        thin_dir=str(server.folder / "room"),
                        timeout_seconds=60,
                    ),
                    server.files(),
                )

            return connect

    server.know(*server.ports)
    assert differences(load(name), Stage) == []


def test_network_partition_loses_nothing(server: SshServer, tmp_path: Path) -> None:
    """Every session of sshd is killed while a state runs; the job is followed on a new one."""
    states, there = tmp_path / "states", tmp_path / "there"
    for folder in (states, there):
        folder.mkdir()
    (states / "t.sls").write_text(
        f"t:\n  cmd.run: [{{name: 'echo x >> {there}/count; touch {there}/on; "
        f"while ! [ -e {there}/go ]; do sleep 0.01; done'}}]\n"
    )
    server.know(*server.ports)
    settings = MasterSettings(
        file_roots={"base": [str(states)]}, pillar_roots={}, cache_dir=str(tmp_path / "master")
    )
    target = dataclasses.replace(server.target(), thin_dir=str(server.folder / "room"))
    said: list[str] = []
    started = threading.Event()

    def watch(phase: Any, text: str) -> None:
        said.append(text)
        if text == "started":
            started.set()
        if text.startswith("lost"):
            (there / "go").touch()

    def cut() -> None:
        assert started.wait(60)
        server.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        ret = job.run(
            target,
            lambda one: open_connection(one, server.files()),
            JobSpec("20261121191500000000", "state.apply", ("t",)),
            settings,
            watch,
        )
    finally:
        cutter.join()
    assert [row["result"] for row in ret.value.values()] == [True]
    assert (there / "count").read_text() == "x\n"
    assert any(text.startswith("lost") for text in said)
