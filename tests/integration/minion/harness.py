"""A master's double on a real gateway, and real agent processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from catena.core.config.minion import MinionSettings
from catena.core.errors import UnreachableError
from catena.core.job import JobReturn, JobSpec
from catena.fileserver.service import FileService
from catena.minion.start import blob
from catena.minion.start.blob import SOCKET, StartData
from catena.minion.start.interpreter import python_argv
from catena.transport.gateway import Gateway
from catena.transport.keys import generate
from catena.transport.local import LocalClient
from catena.transport.messages import (
    ChunkRequest,
    ClientRequest,
    EnrolOffer,
    EnrolProbe,
    EnrolReply,
    EnrolRequest,
    Envelope,
    EventFired,
    EventStored,
    FilePush,
    FilesRequest,
    FileStored,
    Hello,
    JobOrder,
    JobReturned,
    ManifestRequest,
    PeerReply,
    PeerRequest,
    PillarReply,
    PillarRequest,
    ReturnPart,
    ReturnStored,
    Welcome,
)
from catena.transport.peers import Endpoints, KeyTable, Peer
from catena.transport.return_parts import join_return
from tests.support.waiting import until

T = TypeVar("T", bound=Any)


@dataclass
class MasterDouble:
    """Accepts every key, welcomes everybody, stores returns once."""

    file_root: Path
    pillar: dict[str, Any] = field(default_factory=dict)
    stores: bool = True
    messages: list[tuple[Peer, Any]] = field(default_factory=list)
    returns: dict[str, JobReturn] = field(default_factory=dict)
    #: How often each return came.
    told: dict[str, int] = field(default_factory=dict)
    peer: Peer | None = None
    port: int = 0

    async def start(self) -> None:
        self.keys, self.table = generate(), KeyTable()
        self.parts: dict[str, dict[int, ReturnPart]] = {}
        self.files = FileService({"base": [self.file_root]})
        for _ in range(50):
            self.port = self.port or random.randrange(20000, 32000, 4)
            if await self._serve():
                return
            self.port = 0
        raise AssertionError("no three free ports in a row")

    async def _serve(self) -> bool:
        endpoints = Endpoints.of("127.0.0.1", self.port)
        self.gateway = Gateway(endpoints, self.keys, self.table, self.on_message)
        try:
            await self.gateway.start()
        except UnreachableError:
            return False
        return True

    async def stop(self) -> None:
        await self.gateway.stop()

    async def restart(self) -> None:
        """Come back on the same ports with the same key."""
        await until(self._serve, "free ports")

    def on_message(self, peer: Peer, envelope: Envelope) -> None:
        message = envelope.message
        self.messages.append((peer, message))
        answer = self._answer(peer, message)
        if answer is not None:
            self.gateway.send(peer, answer, envelope.msg_id)

    def _answer(self, peer: Peer, message: Any) -> Any:
        if isinstance(message, EnrolProbe):
            return EnrolOffer(self.keys.public, "1")
        if isinstance(message, EnrolRequest):
            self.table.accept(peer.key)
            return EnrolReply("accepted", "", self.keys.public, 0.0)
        if isinstance(message, Hello):
            self.peer = peer
            return Welcome("1", 15)
        if isinstance(message, JobReturned):
            return self._store(message.ret)
        if isinstance(message, ReturnPart):
            return self._part(message)
        if isinstance(message, EventFired):
            return EventStored(message.event_id)
        if isinstance(message, PillarRequest):
            return PillarReply({**self.pillar, **message.override})
        if isinstance(message, PeerRequest):
            return PeerReply([message.call.kind.value, message.call.fun, *message.call.args])
        return self._answer_bulk(message)

    def _answer_bulk(self, message: Any) -> Any:
        if isinstance(message, FilePush):
            return FileStored(message.path, message.sha256, message.index == message.count - 1)
        if isinstance(message, ManifestRequest):
            return self.files.manifest("m1", message.saltenv)
        if isinstance(message, ChunkRequest):
            return self.files.chunk("m1", message)
        if isinstance(message, FilesRequest):
            return self.files.files("m1", message)
        return None

    def _store(self, ret: JobReturn) -> ReturnStored | None:
        self.told[ret.jid] = self.told.get(ret.jid, 0) + 1
        if not self.stores:
            return None
        self.returns[ret.jid] = ret
        return ReturnStored(ret.jid)

    def _part(self, part: ReturnPart) -> ReturnStored | None:
        parts = self.parts.setdefault(part.jid, {})
        parts[part.index] = part
        if len(parts) < part.count:
            return None
        return self._store(join_return(list(parts.values()), 64 * 1024 * 1024).ret)

    def got(self, kind: type[T]) -> list[T]:
        return [message for _, message in self.messages if isinstance(message, kind)]

    def send(self, message: Any) -> None:
        assert self.peer is not None
        assert self.gateway.send(self.peer, message)

    def order(self, jid: str, fun: str, *args: Any, **fields: Any) -> None:
        self.send(JobOrder(JobSpec(jid, fun, args, **fields)))

    async def run(self, jid: str, fun: str, *args: Any, **fields: Any) -> JobReturn:
        self.order(jid, fun, *args, **fields)
        await until(lambda: jid in self.returns, f"the return of {fun}")
        return self.returns[jid]


@dataclass
class Agent:
    """A minion in a folder of its own; its process may come and go."""

    start: StartData
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return Path(self.start.conf_dir)

    @property
    def cache(self) -> Path:
        return self.start.cache_dir

    @property
    def log(self) -> str:
        return Path(self.start.settings.log_file).read_text()

    def begin(self, **changes: Any) -> None:
        self.start = replace(self.start, **changes)
        handle = blob.write(self.start)
        argv = python_argv("catena.minion.daemon", str(handle))
        self.process = subprocess.Popen(argv, pass_fds=[handle], start_new_session=True)
        os.close(handle)

    def configure(self, **more: Any) -> str:
        """Write the configuration as a file, for launcher and commands; return its folder."""
        chosen = asdict(self.start.settings)
        chosen.update(more)
        (self.home / "minion").write_text(json.dumps(chosen))
        return str(self.home)

    def launch(self, **more: Any) -> None:
        """Start as `catena minion` does: configuration, grains, then the daemon."""
        argv = python_argv("catena.minion.launch", self.configure(**more))
        self.process = subprocess.Popen(argv, start_new_session=True)

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def ask(self, verb: str, **params: Any) -> Any:
        with LocalClient(self.start.run_dir / SOCKET) as client:
            return client.request(ClientRequest(verb, params), 10).value

    def job_folders(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "jobs").iterdir())

    def end(self) -> None:
        """End whatever is left: the daemon, and the jobs that it would leave running."""
        if self.process is not None and self.process.poll() is None:
            # From the end of the line: the end of a running job would start the next one.
            for job in reversed(self.ask("running")):
                self.ask("signal", jid=job["jid"], signal=9)
            self.kill(signal.SIGTERM)


def agent_in(home: Path, port: int, **settings: Any) -> Agent:
    boot = home / "boot_id"
    boot.write_text("boot-1\n")
    state = {name: str(home / name[0]) for name in ("cache_dir", "pki_dir", "run_dir")}
    chosen = MinionSettings(
        id="m1",
        machine_id="mach1",
        master="127.0.0.1",
        master_port=port,
        log_file=str(home / "log"),
        agent_dir=str(home / "agent"),
        boot_id_file=str(boot),
        recon_max_seconds=1,
        **{**state, **settings},
    )
    return Agent(StartData(chosen, "m1", "mach1", str(home), grains={"id": "m1", "os": "Test"}))


@asynccontextmanager
async def a_pair(
    home: Path, *, begin: bool = True, make: type[MasterDouble] = MasterDouble, **settings: Any
) -> AsyncIterator[tuple[MasterDouble, Agent]]:
    """A master and an agent that is connected to it."""
    root = home / "srv"
    root.mkdir()
    master = make(root)
    await master.start()
    agent = agent_in(home, master.port, **settings)
    try:
        if begin:
            agent.begin()
            await until(lambda: master.peer, "the Hello")
        yield master, agent
    finally:
        agent.end()
        await master.stop()


#: The fixture `pair`: opens a master and an agent with the given settings of the agent.
Pair = Callable[..., AbstractAsyncContextManager[tuple[MasterDouble, Agent]]]
