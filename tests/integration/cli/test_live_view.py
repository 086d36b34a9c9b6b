"""The live view of the real command on a real pseudo-terminal, against a scripted master."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.core.job import JobReturn
from catena.core.records import encode
from catena.transport.local_server import LocalConnection, LocalServer
from catena.transport.messages import ClientItem, ClientReply, Envelope
from tests.support.terminal import PATIENCE_SECONDS, Terminal, plain

TAG = "cmd_|-make the site_|-false_|-run"
STAMP = "2026-03-01T12:00:00.000000"


def action(number: int, status: str = "Queued", comment: str = "") -> dict[str, Any]:
    return {
        "action_id": number, "sort_order": number % 3, "title": "Run script a.sh",
        "status": status, "state": "NEW", "reason": "", "comment": comment, "summary": "",
        "changes": {}, "started": 0.0, "ended": 0.0, "waits": "", "until": 0.0,
        "kind": "once", "chunk": 1, "epoch": 1,
    }  # fmt: skip


def chain(minions: int, state: str) -> dict[str, Any]:
    """Return a chain of three actions in which the last minion has failed."""
    rows = [
        {"minion": f"web{n:04}", "status": "Queued", "note": "", "actions": [
            action(3 * n), action(3 * n + 1), action(3 * n + 2)]}
        for n in range(minions)
    ]  # fmt: skip
    comment = f"what failed in it:\n{TAG}: \x1b[31mEVIL\x1b]0;title\x07 exit code 1"
    rows[-1]["actions"][0] = action(3 * minions - 3, "Failed", comment)  # type: ignore[index]
    return {
        "id": 7, "label": "patch", "state": state, "reason": "", "user": "anna", "due": 0.0,
        "ended": 0.0, "epoch": 1, "jids": [], "minions": rows, "created": 0.0, "approved_by": "",
        "dispatched": True, "archived": False, "history": [],
    }  # fmt: skip


class Master:
    """Serves a chain or a job whose end waits for `go_on`."""

    def __init__(self, folder: Path, minions: int) -> None:
        self.etc = folder / "etc"
        self.etc.mkdir()
        (self.etc / "master").write_text(f"root_dir: {folder}\n")
        self._minions = minions
        self._path = folder / "run/catena/master/master.sock"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._gate = asyncio.Event()

    def start(self) -> None:
        self._path.parent.mkdir(parents=True)
        self._path.parent.chmod(0o700)
        self._server = LocalServer(self._path, self._answer, lambda peer: True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)

    def go_on(self) -> None:
        self._loop.call_soon_threadsafe(self._gate.set)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    async def _answer(self, connection: LocalConnection, envelope: Envelope) -> None:
        verb = envelope.message.verb
        if verb == "blob.put":
            await connection.send(ClientReply({"whole": False}), envelope.msg_id)
            return
        if verb == "chain.edit":
            await connection.send(ClientReply({}), envelope.msg_id)
            return
        if verb == "chain.show":
            found = chain(self._minions, "running")
            found["minions"][0]["actions"][0]["status"] = "Picked Up"
            await connection.send(ClientReply(found), envelope.msg_id)
            return
        items = self._chain() if verb == "chain.watch" else self._job()
        for item in items:
            if item is None:
                await self._gate.wait()
            else:
                await connection.send(ClientItem(item), envelope.msg_id)
        end = {"id": 7, "state": "failed", "reason": ""} if verb == "chain.watch" else None
        await connection.send(ClientReply(end), envelope.msg_id)

    def _chain(self) -> Iterator[dict[str, Any] | None]:
        yield {"type": "chain", **chain(self._minions, "running")}
        data = {"action": 0, "minion": "web0000", "status": "Picked Up", "reason": ""}
        yield {"type": "event", "tag": "catena/chain/7/action/0", "data": data, "stamp": STAMP}
        yield None
        yield {"type": "chain", **chain(self._minions, "failed")}

    def _job(self) -> Iterator[dict[str, Any] | None]:
        names = [f"web{n:04}" for n in range(self._minions)]
        yield {"type": "new", "jid": "20260301120000000000", "minions": names, "missing": []}
        value = {TAG: {"result": False, "comment": "exit code 1", "__id__": "make the site"}}
        ret = JobReturn("20260301120000000000", "state.apply", (), False, 2, value, 1.0, 0.5)
        yield {"type": "delivery", "minion": names[1], "state": "received", "detail": ""}
        yield {"type": "return", "minion": names[0], "ret": encode(ret)}
        data = {"path": "iso/\x1b[31mbig", "done": 41 << 20, "total": 700 << 20}
        step = {"type": "progress", "minion": names[1], "seq": 2, "kind": "transfer"}
        yield {**step, "data": data}
        yield None
        for name in names[1:]:
            yield {"type": "delivery", "minion": name, "state": "cancelled", "detail": "by anna"}


@pytest.fixture
def master(request: pytest.FixtureRequest) -> Iterator[Master]:
    with tempfile.TemporaryDirectory(prefix="cl") as folder:
        made = Master(Path(folder), request.param)
        made.start()
        yield made
        made.stop()


@pytest.fixture
def terminal(master: Master) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def opener(*words: str, size: tuple[int, int] = (100, 24), term: str = "xterm") -> Terminal:
        opened.append(Terminal(master.etc, *size, *words, term=term))
        return opened[-1]

    yield opener
    for one in opened:
        one.close()


@pytest.mark.parametrize("master", [2000], indirect=True)
def test_watch_shows_counts_and_the_interesting_of_thousands(
    master: Master, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("chain", "watch", "patch")
    frame = view.frame("1 failed", "1 running", "1998 waiting", "web1999", "web0000", "and 1")
    assert len(set(re.findall(r"web\d{4}", frame))) <= 24
    view.resize(40, 10)
    view.until(lambda text: len(text) > 400)
    master.go_on()
    assert view.rest() == 1
    # The cursor is visible again, and the whole chain is below.
    assert view.seen.rstrip().endswith(b"Run script a.sh")
    assert view.seen.rindex(b"\x1b[?25h") > view.seen.rindex(b"\x1b[?25l")


@pytest.mark.parametrize("master", [3], indirect=True)
@pytest.mark.parametrize("size", [(100, 24), (30, 6), (12, 3)])
def test_failures_are_written_for_people_and_escaped(
    master: Master, terminal: Callable[..., Terminal], size: tuple[int, int]
) -> None:
    view = terminal("chain", "watch", "patch", size=size)
    wide = "web0002: Run script a.sh: make the site (cmd.run): \\x1b[31mEVIL"
    view.frame(wide if size[0] == 100 else "web0002")
    master.go_on()
    assert view.rest() == 1
    assert b"_|-" not in view.seen
    assert b"\x1b[31mEVIL" not in view.seen and b"\x1b]0;" not in view.seen
    assert b"\\x1b[31mEVIL\\x1b]0;title\\x07" in view.seen


@pytest.mark.parametrize("master", [3], indirect=True)
def test_ctrl_c_detaches_and_leaves_the_terminal_as_it_was(
    master: Master, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("chain", "watch", "patch")
    view.until(lambda text: "1 running" in plain(text))
    os.kill(view.process.pid, 2)
    assert view.rest() == 130
    assert b"detached; the chain continues: catena chain watch 7" in view.seen
    assert view.seen.rindex(b"\x1b[?25h") > view.seen.rindex(b"\x1b[?25l")


@pytest.mark.parametrize("master", [3], indirect=True)
def test_batch_has_a_live_view_below_its_answers(
    master: Master, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("run", "*", "state.apply", "--batch", "1")
    view.frame("state.apply on * (job 20260301120000000000)", "1 running")
    view.until(lambda text: "make the site (cmd.run): exit code 1" in plain(text))
    master.go_on()
    assert view.rest() == 1
    assert b"failed: web0000 (code 2)" in view.seen


@pytest.mark.parametrize("master", [3], indirect=True)
@pytest.mark.parametrize("batch", [(), ("--batch", "1")])
def test_large_file_on_its_way_to_a_minion_is_shown_and_taken_away(
    master: Master, terminal: Callable[..., Terminal], batch: tuple[str, ...]
) -> None:
    view = terminal("run", "*", "state.apply", *batch)
    view.frame("web0001", "iso/\\x1b[31mbig: 41 of 700 MiB")
    master.go_on()
    assert view.rest() == 1
    assert b"\x1b[31mbig" not in view.seen
    last = view.seen.rindex(b"700 MiB")
    assert b"\x1b[1F\x1b[J" in view.seen[last:] or b"\x1b[2K" in view.seen[last:]


@pytest.mark.parametrize("master", [3], indirect=True)
def test_terminal_that_can_not_redraw_gets_lines(
    master: Master, terminal: Callable[..., Terminal]
) -> None:
    view = terminal("chain", "watch", "patch", term="dumb")
    frame = view.until(lambda text: "web0000" in text and "Picked Up" in text)
    assert "\x1b[?25l" not in frame
    master.go_on()
    assert view.rest() == 1


@pytest.mark.parametrize("master", [3], indirect=True)
def test_pipe_gets_lines_and_nothing_of_rich_is_imported(master: Master) -> None:
    master.go_on()
    words = ["-X", "importtime", "-m", "catena", "-c", str(master.etc), "chain", "watch", "7"]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 1
    assert re.search(r"web0000 +Picked Up +0 Run script a\.sh", done.stdout)
    assert not re.search(r"\| +rich", done.stderr)
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("master", [3], indirect=True)
def test_large_file_shows_how_much_of_it_the_master_has(
    master: Master, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    wheel = tmp_path / "catena-9.9-py3-none-any.whl"
    with wheel.open("wb") as stream:
        stream.truncate(20 * 1024 * 1024)
    view = terminal("chain", "edit", "patch", "0", "--upgrade-agent", str(wheel))
    shown = plain(view.until(lambda text: "20.0/20.0 MiB" in plain(text)))
    assert "sending catena-9.9-py3-none-any.whl" in shown.partition("20.0/20.0 MiB")[0]
    assert view.rest() == 0
