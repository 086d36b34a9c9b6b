"""A real master process that is killed while it works."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import yaml
import zmq
from fleet import free_ports

from catena.client.connection import MasterClient
from catena.client.requests import jobs, keys
from catena.client.requests.jobs import JobList, JobShow, RunJob
from catena.client.requests.keys import KeyList
from catena.core.errors import CatenaError
from catena.core.job import JobReturn
from catena.transport.agent import AgentLink, Connected, LinkConfig, Received
from catena.transport.keys import load_or_create
from catena.transport.messages import (
    Hello,
    JobOrder,
    JobReceived,
    JobReturned,
    ReturnStored,
    Welcome,
)

#: How long anything may take on a busy machine.
PATIENCE_SECONDS = 60.0


class Daemon:
    """`catena master` below one folder, as systemd would run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports()
        settings = {
            "root_dir": str(folder),
            "log_file": "-",
            "interface": "127.0.0.1",
            "port": self.port,
            "auto_accept": True,
            "reactor_defaults": False,
            "file_roots": {"base": [str(folder / "srv")]},
        }
        (folder / "etc").mkdir()
        (folder / "etc" / "master").write_text(yaml.safe_dump(settings))
        self.socket = folder / "run/catena/master/master.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> MasterClient:
        command = [
            sys.executable,
            "-m",
            "catena",
            "--config-dir",
            str(self.folder / "etc"),
            "master",
        ]
        self.log = (self.folder / "log").open("ab")
        notified = self.folder / "notify"
        more = {"PYTHONFAULTHANDLER": "1", "NOTIFY_SOCKET": str(notified)}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notified))
            self.process = subprocess.Popen(
                command, stdout=self.log, stderr=self.log, env={**os.environ, **more}
            )
            end = os.pidfd_open(self.process.pid)
            select.select([ready.fileno(), end], [], [], PATIENCE_SECONDS)
            os.close(end)
            notified.unlink()
            try:
                assert ready.recv(100, socket.MSG_DONTWAIT) == b"READY=1"
            except BlockingIOError:
                self._fail()
        return MasterClient(self.socket, 10.0)

    def _fail(self) -> NoReturn:
        """Fail with the log of a process that ended or did not become ready in time."""
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            # It then writes the stack of each thread to its log.
            self.end(signal.SIGABRT)
        log = (self.folder / "log").read_text()
        raise AssertionError(f"exit {code}, not ready; its log: {log or 'empty'}")

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self.log.close()
        self.process = None
        return code


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="ck") as folder:
        made = Daemon(Path(folder))
        yield made
        if made.process is not None:
            made.end(signal.SIGKILL)


class Agent:
    """A minion's link with a poll loop of its own."""

    def __init__(self, daemon: Daemon, name: str) -> None:
        pki = daemon.folder / name
        self.name = name
        config = LinkConfig(
            name, f"mach-{name}", "1", "127.0.0.1", str(pki), daemon.port, recon_max_seconds=1.0
        )
        self.link = AgentLink(config, load_or_create(pki), time.monotonic())
        self.poller = zmq.Poller()
        self.link.register(self.poller)
        self.open_jobs: tuple[str, ...] = ()
        self.got: list[object] = []

    def until(self, kind: type, count: int = 1, seconds: float = PATIENCE_SECONDS) -> list[object]:
        """Serve the link until *count* messages of *kind* have come; say Hello when asked."""
        end = time.monotonic() + seconds
        while len(found := [m for m in self.got if isinstance(m, kind)]) < count:
            assert time.monotonic() < end, f"no {kind.__name__}; got {self.got}"
            self.poller.poll(min(self.link.timeout(time.monotonic()), 50))
            for event in self.link.service(time.monotonic()):
                if isinstance(event, Connected):
                    self.hello()
                elif isinstance(event, Received):
                    self.got.append(event.envelope.message)
        return found

    def hello(self) -> None:
        words = (self.name, f"mach-{self.name}", "boot1", "session1", "1", "minion")
        assert self.link.send("control", Hello(*words, True, {}, self.open_jobs))


def test_confirmed_job_survives_a_kill_and_reaches_its_minion_once(
    daemon: Daemon,
) -> None:
    client = daemon.start()
    agent = Agent(daemon, "web1")
    try:
        agent.until(Welcome)
        first = client.request(jobs.RUN, RunJob("web1", "test.ping"))["jid"]
        agent.until(JobOrder)
        agent.link.send("control", JobReceived(first, 0))
        agent.open_jobs = (first,)
        client.request(jobs.RUN, RunJob("web1", "test.ping", metadata={"n": 2}))
        agent.until(JobOrder, 2)
        daemon.end(signal.SIGKILL)
        client = daemon.start()
        # Both ends know of the first; the second was sent and not acknowledged: it goes again.
        agent.until(JobOrder, 3)
        again = [m.spec.jid for m in agent.got if isinstance(m, JobOrder)]
        assert again.count(first) == 1
        assert len(set(again)) == 2
        ret = JobReturn(first, "test.ping", (), True, 0, "kept", time.time(), 0.1)
        agent.link.send("control", JobReturned(ret))
        agent.until(ReturnStored)
        daemon.end(signal.SIGKILL)
        shown = daemon.start().request(jobs.SHOW, JobShow(first))
        assert shown["minions"]["web1"]["ret"]["value"] == "kept"
    finally:
        agent.link.close()


def test_confirmed_jobs_survive_a_kill_of_the_master_under_load(
    daemon: Daemon,
) -> None:
    client = daemon.start()
    agent = Agent(daemon, "web1")
    agent.until(Welcome)
    agent.link.close()
    answered: list[str] = []
    enough = threading.Event()

    def submit() -> None:
        own = MasterClient(daemon.socket, 10.0)
        for number in range(100_000):
            try:
                reply = own.request(jobs.RUN, RunJob("web1", "test.ping", args=(number,)))
            except (CatenaError, OSError):
                return
            answered.append(reply["jid"])
            if len(answered) > 60:
                enough.set()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert enough.wait(PATIENCE_SECONDS)
    daemon.end(signal.SIGKILL)
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    client = daemon.start()
    kept = {row["jid"] for row in client.request(jobs.LIST, JobList(limit=10000))}
    assert len(set(answered)) == len(answered)
    assert set(answered) <= kept


def test_sigterm_stops_the_master_cleanly(daemon: Daemon) -> None:
    client = daemon.start()
    assert client.request(keys.LIST, KeyList())["accepted"] == []
    assert daemon.end(signal.SIGTERM) == 0
    assert not daemon.socket.exists()
    log = (daemon.folder / "log").read_text()
    assert "stopped" in log
    assert "Traceback" not in log
    database = daemon.folder / "var/lib/catena/master/master.db"
    assert database.stat().st_mode & 0o777 == 0o600
    assert database.parent.stat().st_mode & 0o777 == 0o700
