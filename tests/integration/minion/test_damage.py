"""Damaged files of an agent are reported or have no effect.

An agent is killed while a chain waits for its reboot and while a return and an event wait for the
master. Each of its files is damaged in turn, before a new agent starts on it in a new boot.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from catena.core.payloads import of_chain
from catena.transport.messages import EventFired
from tests.integration.minion.chains import chain
from tests.integration.minion.harness import Agent, MasterDouble, agent_in
from tests.support.waiting import until

START, EVENT, HELD, RESUME, PING = (f"2026010100000000000{n}" for n in (1, 2, 3, 4, 5))
WAITING = "web/waits"
PROBE = Path(__file__).with_name("probe.py")

Damage = Callable[[bytes, random.Random], bytes]


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Damage] = {
    "flipped": flipped,
    "zeroed": lambda data, _: b"\0" * len(data),
    "empty": lambda data, _: b"",
    "cut": lambda data, _: data[: len(data) // 2],
    "garbage": lambda data, chance: chance.randbytes(max(len(data), 64)),
}


def put_folder(file: Path) -> None:
    file.mkdir()
    (file / "inside").write_text("x")


#: What is put in the place of a file.
REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "a folder": put_folder,
    "a pipe": os.mkfifo,
    "a dangling link": lambda file: file.symlink_to("nowhere"),
}


@dataclass
class Host:
    """An agent's home, as it is after the kill, and a master that it knows."""

    home: Path
    saved: Path
    master: MasterDouble
    agent: Agent
    acks: bool = False

    @property
    def witness(self) -> list[str]:
        file = self.home / "witness"
        return file.read_text().splitlines() if file.exists() else []

    def reset(self) -> None:
        """Make the home as it was after the kill."""
        for name in ("c", "p", "minion.d"):
            shutil.rmtree(self.home / name, ignore_errors=True)
            shutil.copytree(self.saved / name, self.home / name, symlinks=True)
        shutil.copy(self.saved / "witness", self.home / "witness")
        (self.home / "log").write_text("")
        (self.home / "boot_id").write_text("boot-2\n")
        self.master.returns.clear()
        self.master.messages.clear()
        self.master.peer = None

    def events(self, tag: str) -> list[EventFired]:
        return [event for event in self.master.got(EventFired) if event.tag.endswith(tag)]


class ForgetfulMaster(MasterDouble):
    """Says of no event that it is stored, until it is told to."""

    acks = False

    def _answer(self, peer: Any, message: Any) -> Any:
        if isinstance(message, EventFired) and not self.acks:
            return None
        return super()._answer(peer, message)


async def prepare(home: Path) -> Host:
    root = home / "srv"
    root.mkdir(parents=True)
    (root / "_modules").mkdir()
    shutil.copy(PROBE, root / "_modules/probe.py")
    master = ForgetfulMaster(root)
    await master.start()
    agent = agent_in(home, master.port, reboot_command=["true"], resume="local")
    agent.launch()
    await until(lambda: master.peer, "the Hello")
    manifest = chain(root, home / "witness")
    began = await master.run(
        START, "mgractionchains.start", manifest.chain_id, payload=of_chain(manifest)
    )
    assert began.success, [row["comment"] for row in began.value.values()]
    await master.run(EVENT, "event.send", WAITING)
    master.stores = False
    master.order(HELD, "test.echo", "held")
    await until(lambda: HELD in master.told, "the return that is not stored")
    agent.kill()
    master.stores, master.acks = True, True
    saved = home.parent / "saved"
    for name in ("c", "p", "minion.d"):
        shutil.copytree(home / name, saved / name, symlinks=True)
    shutil.copy(home / "witness", saved / "witness")
    return Host(home, saved, master, agent)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def host(
    loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    made = loop.run_until_complete(prepare(tmp_path_factory.mktemp("d") / "h"))
    yield made
    loop.run_until_complete(made.master.stop())


def files(host: Host) -> list[str]:
    """Return every file of the agent; two of the copies of the master's files are enough."""
    found = [p for p in host.saved.rglob("*") if p.is_file() and not p.is_symlink()]
    names = sorted(str(path.relative_to(host.saved)) for path in found if path.name != "witness")
    copies = [name for name in names if name.startswith("c/files/")]
    return [name for name in names if name not in copies[1:-1]]


async def live(host: Host) -> bool:
    """Start an agent in the new boot and let it work; return whether it came up at all."""
    host.agent.launch()
    process: subprocess.Popen[bytes] | None = host.agent.process
    assert process is not None
    await until(lambda: host.master.peer or process.poll() is not None or refused(host), "a sign")
    if host.master.peer is None:
        return False
    await host.master.run(RESUME, "mgractionchains.resume")
    await host.master.run(PING, "test.ping")
    return True


def refused(host: Host) -> bool:
    return "the trusted key is" in host.agent.log


def is_sound(host: Host) -> bool:
    """Return whether everything has come that would have come without damage."""
    return (
        host.witness == ["7-1", "7-3"]
        and HELD in host.master.returns
        and bool(host.events(WAITING))
    )


def says_so(host: Host, file: Path) -> bool:
    """Return whether log and master were told, or the refusal to start names the file."""
    log = host.agent.log
    if host.master.peer is None:
        return str(file) in log or refused(host)
    return " is damaged: " in log and bool(host.events("/event/damaged"))


async def damaged(host: Host, name: str, how: str) -> str:
    """Return what is wrong with what comes of one damage; "" for nothing."""
    host.reset()
    file = host.home / name
    chance = random.Random(zlib.crc32(f"{name} {how}".encode()))
    file.chmod(0o600)
    if how in REPLACEMENTS:
        file.unlink()
        REPLACEMENTS[how](file)
    else:
        file.write_bytes(DAMAGES[how.partition(" ")[0]](file.read_bytes(), chance))
    try:
        came_up = await live(host)
        if came_up and not is_sound(host) and says_so(host, file):
            pass
        elif came_up and not is_sound(host):
            returned = host.master.returns[RESUME]
            return f"{name} {how}: silence; {host.witness}, {returned.success}, {returned.value}"
        if not came_up and not says_so(host, file):
            return f"{name} {how}: no start and no word: {host.agent.log[-300:]}"
        if len(set(host.witness)) != len(host.witness):
            return f"{name} {how}: an action has run twice: {host.witness}"
        if not came_up and not name.startswith("p/"):
            return f"{name} {how}: the agent does not start: {host.agent.log[-300:]}"
    finally:
        host.agent.end()
        if host.agent.process is not None and host.agent.process.poll() is None:
            host.agent.kill()
    return ""


def test_minion_with_intact_files_starts_normally(
    host: Host, loop: asyncio.AbstractEventLoop
) -> None:
    host.reset()
    assert loop.run_until_complete(live(host))
    assert is_sound(host)
    host.agent.end()


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_reported_or_harmless(
    host: Host, loop: asyncio.AbstractEventLoop, how: str
) -> None:
    """Flip a bit in every file; do each other damage to some, so that every file has two."""
    others = [name for name in DAMAGES if name != "flipped"]
    step = slice(others.index(how), None, len(others)) if how in others else slice(None)
    wrong = [loop.run_until_complete(damaged(host, name, how)) for name in files(host)[step]]
    assert "\n".join(text for text in wrong if text) == ""


#: Files without which an agent would not start, would hang, or could not continue the chain.
PLACES = (
    "c/lock",
    "c/jobs.log",
    "c/chain_pillar",
    "c/chains/.lock",
    "c/chains/7/journal",
    "c/chains/7/journal.mark",
    "c/chains/7/manifest.json",
    "c/chains/7/actionchain_7_mach1_2.sls",
    "p/resume.key",
)
RESUME_FILE = "minion.d/_mgractionchains.conf"


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_what_is_in_the_place_of_a_file_is_reported_or_harmless(
    host: Host, loop: asyncio.AbstractEventLoop, how: str
) -> None:
    names = [*PLACES, RESUME_FILE]
    wrong = [loop.run_until_complete(damaged(host, name, how)) for name in names]
    assert "\n".join(text for text in wrong if text) == ""


@pytest.mark.slow
@pytest.mark.parametrize("how", [*DAMAGES, "flipped again"])
def test_every_damage_of_every_file_is_reported_or_harmless(
    host: Host, loop: asyncio.AbstractEventLoop, how: str
) -> None:
    wrong = [loop.run_until_complete(damaged(host, name, how)) for name in files(host)]
    assert "\n".join(text for text in wrong if text) == ""
