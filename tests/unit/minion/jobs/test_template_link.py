from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from catena.core.config.minion import MinionSettings
from catena.minion.jobs.template_link import TemplateLink
from catena.minion.loop import Loop
from catena.minion.start.blob import StartData

JID = "20260101000000000001"


class Nobody:
    """Listens to nothing."""

    def forked(
        self, jid: str, pid: int, start: int | None, module: str, line: socket.socket
    ) -> None: ...

    def unforked(self, jids: list[str]) -> None: ...


def test_template_that_is_replaced_before_it_ended_leaves_no_zombie(tmp_path: Path) -> None:
    settings = MinionSettings(
        cache_dir=str(tmp_path / "c"), run_dir=str(tmp_path / "r"), pki_dir=str(tmp_path / "p")
    )
    start = StartData(settings, "m1", "mach1", str(tmp_path))
    link = TemplateLink(Loop(), Nobody())
    pids = []
    for _ in range(2):
        link.fork(JID, "test", start, 0.0)
        pids.append(link._pid)
        link.close()
    end = time.monotonic() + 60
    while link._left:
        assert time.monotonic() < end, "a template did not end"
        link.reap()
        os.sched_yield()
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()
