"""A host with a real store, real state runs and a pretended boot, that can stop at any instant."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from catena.core.config.minion import MinionSettings
from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
    JobSpec,
)
from catena.core.payloads import of_chain
from catena.fileserver.roots import RootsClient
from catena.runtime import chain_run
from catena.runtime.executor import FinishedJob, execute
from catena.runtime.host import After, AfterKind, AgentHome
from catena.runtime.session import local_session

MACHINE = "df00a3b56f3aa159746b8c835eaaeede"
CHAIN = 131
#: Exit code of a pretended host that lost its power.
CRASHED = 77

WITNESS = '''
import os
import select


def mark(action, fails=False):
    """Leave a line outside the product: this is the effect."""
    with open(__opts__["boot_id_file"]) as stream:
        boot = stream.read().strip()
    handle = os.open(__grains__["witness"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, ("%s %s\\n" % (action, boot)).encode())
    os.close(handle)
    gate = __grains__["witness"] + ".gate"
    if os.path.exists(gate):
        with open(gate) as stream:
            # Python handles a signal that comes just before a blocking call after that call.
            while not select.select([stream], [], [], 0.05)[0]:
                pass
    if fails:
        raise ValueError("told to fail")
    return "marked"
'''


@dataclass(frozen=True)
class Action:
    """One action of a chain as a test writes it."""

    id: int
    kind: ActionKind = ActionKind.idempotent
    fails: bool = False
    #: It runs in a process of its own.
    parallel: bool = False


def chunk_text(number: int, actions: list[Action], follows: int | None, boundary: Boundary) -> str:
    """Return a chunk in the reference's form."""
    lines: list[str] = []
    previous = ""

    def state(name: str, function: str, **arguments: Any) -> None:
        nonlocal previous
        lines.extend([f"{name}:", "    mgrcompat.module_run:", f"    -   name: {function}"])
        lines.extend(f"    -   {key}: {value}" for key, value in arguments.items())
        if previous:
            lines.extend(["    -   require:", f"        -   mgrcompat: {previous}"])
        previous = name

    def schedule() -> None:
        more = {} if follows is None else {"next_action_id": follows}
        state(
            "schedule_next_chunk",
            "mgractionchains.next",
            actionchain_id=CHAIN,
            chunk=number + 1,
            **more,
        )

    for action in actions:
        name = f"mgr_actionchain_{CHAIN}_action_{action.id}_chunk_{number}"
        if action.kind is ActionKind.reboot:
            state(name, "system.reboot", at_time=1)
            continue
        if action.kind is ActionKind.agent_upgrade:
            above = previous
            schedule()
            previous = above
        more = {key: True for key in ("fails", "parallel") if getattr(action, key)}
        state(name, "witness.mark", action=action.id, **more)
    if boundary is Boundary.reboot:
        schedule()
    return "\n".join(lines) + "\n"


@dataclass
class PretendedHost:
    """One host: folders, boot id, agent session; jobs run in a child that may die anywhere."""

    folder: Path
    boot: int = 1
    agent: int = 1
    jobs: int = 0
    steps: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    manifest: ChainManifest | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    #: Grains beside its own.
    grains: dict[str, Any] = field(default_factory=dict)
    #: Whether somebody has called the running job off.
    cancelled: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        for name in ("conf", "cache", "pki", "roots/_modules", "roots/actionchains"):
            (self.folder / name).mkdir(parents=True, mode=0o700)
        (self.folder / "roots/_modules/witness.py").write_text(WITNESS)
        (self.folder / "boot_id").write_text("boot-1")

    # -- the chain -----------------------------------------------------------------------------

    action = staticmethod(Action)

    def render(self, *chunks: list[Action], epoch: int = 1) -> ChainManifest:
        """Write the chunk files of a chain; every chunk but the last ends at its last action."""
        made = []
        for number, actions in enumerate(chunks, 1):
            last = number == len(chunks)
            boundary = Boundary.none if last else Boundary(actions[-1].kind.value)
            follows = None if last else chunks[number][0].id
            data = chunk_text(number, actions, follows, boundary).encode()
            stem = f"actionchain_{CHAIN}_{MACHINE}_{number}"
            (self.folder / f"roots/actionchains/{stem}.sls").write_bytes(data)
            made.append(
                ChunkManifest(
                    number,
                    f"actionchains.{stem}",
                    hashlib.sha256(data).hexdigest(),
                    len(data),
                    boundary,
                    tuple(
                        ActionManifest(
                            a.id, f"mgr_actionchain_{CHAIN}_action_{a.id}_chunk_{number}", a.kind
                        )
                        for a in actions
                    ),
                )
            )
        self.manifest = ChainManifest(CHAIN, MACHINE, epoch, tuple(made))
        return self.manifest

    # -- the host ------------------------------------------------------------------------------

    @property
    def place(self) -> AgentHome:
        settings = MinionSettings(
            boot_id_file=str(self.folder / "boot_id"),
            reboot_command=["/bin/true"],
            **self.settings,
        )
        return AgentHome(
            settings,
            "web1",
            MACHINE,
            self.folder / "conf",
            self.folder / "cache",
            self.folder / "pki",
            grains={"id": "web1", "witness": str(self.folder / "witness"), **self.grains},
            session=f"agent-{self.agent}",
        )

    def reboot(self) -> None:
        """Come up again: another boot, another agent."""
        self.boot += 1
        (self.folder / "boot_id").write_text(f"boot-{self.boot}")
        self.agent += 1

    def restart_agent(self) -> None:
        self.agent += 1

    def call(self, fun: str, *args: Any, **kwargs: Any) -> FinishedJob:
        """Run a job in this process."""
        chain = self.manifest if fun == "mgractionchains.start" else None
        # Run again after a crash, a job has its old number; each of these is another job.
        self.jobs += 1
        payload = of_chain(chain) if chain else None
        jid = f"{20260101000000000000 + self.jobs}"
        spec = JobSpec(jid, fun, args, kwargs, payload=payload)
        files = RootsClient({"base": [str(self.folder / "roots")]})
        session = local_session(
            self.place,
            files,
            lambda *_: ({}, ()),
            spec,
            watch=lambda kind, data: self.steps.append((kind, data)),
        )
        session.host.cancelled = self.cancelled
        return execute(session, spec)

    def start(self) -> FinishedJob:
        return self.call("mgractionchains.start", CHAIN)

    @contextmanager
    def held(self) -> Iterator[Callable[[], int]]:
        """Let actions wait after their effect; yield a call that returns once one of them does.

        What it returns is a descriptor that tells (POLLERR) that the one who waits is gone.
        """
        gate = self.folder / "witness.gate"
        os.mkfifo(gate)
        try:
            yield lambda: os.open(gate, os.O_WRONLY)
        finally:
            gate.unlink()

    def resume(self) -> FinishedJob:
        return self.call("mgractionchains.resume")

    def witnessed(self) -> list[str]:
        """Return the effects so far, "action boot" each, in order."""
        path = self.folder / "witness"
        return path.read_text().splitlines() if path.exists() else []

    def actions_witnessed(self) -> list[int]:
        return [int(line.split()[0]) for line in self.witnessed()]

    def chain_state(self) -> str:
        """Return the state in which the chain stands, or ""."""
        found = chain_run.chain_state(self.place, CHAIN)
        return found.state if found else ""

    # -- crashes -------------------------------------------------------------------------------

    def in_child(self, job: Callable[[], FinishedJob], stop_at: int) -> tuple[bool, int, Any]:
        """Run *job* in a child that dies in front of its *stop_at*-th effect on the disk.

        Returns:
            (whether it came to its end, effects so far, {"after": kind or None, "ret": value}).
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            counter = _stop_at(stop_at)
            try:
                outcome = job()
                after = outcome.after.kind.value if outcome.after else None
                said = {"after": after, "ret": outcome.ret.value, "code": outcome.ret.retcode}
                os.write(writing, json.dumps([counter[0], said]).encode())
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the child's edge
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        os.close(writing)
        data = b""
        while part := os.read(reading, 65536):
            data += part
        os.close(reading)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, CRASHED), code
        if code == CRASHED:
            return False, stop_at, None
        count, said = json.loads(data)
        return True, count, said

    def do(self, after: After | None) -> None:
        """Do what an agent does once a return is safe."""
        if after is None:
            return
        if after.kind is AfterKind.reboot and after.boot_id == f"boot-{self.boot}":
            self.reboot()
        elif after.kind is AfterKind.restart_agent and after.session == f"agent-{self.agent}":
            self.restart_agent()


def _stop_at(number: int) -> list[int]:
    """Let this process die in front of its *number*-th effect on the disk; return the counter."""
    counter = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*args: Any, **kwargs: Any) -> Any:
            counter[0] += 1
            if counter[0] == number:
                os._exit(CRASHED)
            return real(*args, **kwargs)

        return effect

    for name in ("write", "fsync", "rename", "unlink", "ftruncate", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    return counter


@pytest.fixture
def host(tmp_path: Path) -> PretendedHost:
    return PretendedHost(tmp_path / "host")


@pytest.fixture
def new_host(tmp_path: Path) -> Callable[[str], PretendedHost]:
    return lambda name: PretendedHost(tmp_path / name)
