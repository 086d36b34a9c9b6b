"""A master in a process of its own, which tests kill."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import yaml
from fleet import free_ports

from catena.client.connection import MasterClient

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
