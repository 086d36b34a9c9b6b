"""A master process that is killed during its work loses no confirmed job."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

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
from tests.integration.master.daemon import PATIENCE_SECONDS, Daemon


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
