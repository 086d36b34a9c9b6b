"""A job process whose root lacks the daemon's socket still reaches the daemon."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from catena.core.errors import UnreachableError
from catena.core.job import JobProgress
from catena.minion.start.blob import SOCKET
from catena.minion.worker.service import SocketService


def test_moved_service_connects_to_the_folder_that_was_left(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(run_dir / SOCKET))
        daemon.listen()
        service = SocketService(run_dir, patience=0.0)
        with service.moving() as moved:
            # As in another root: the name means nothing there.
            run_dir.rename(tmp_path / "elsewhere")
            moved()
            service.progress(JobProgress("1" * 20, 1, "note", {"text": "x"}))
            connection, _ = daemon.accept()
            assert connection.recv(1)
            connection.close()
            service.close()


def test_service_that_has_not_moved_names_the_missing_socket(tmp_path: Path) -> None:
    service = SocketService(tmp_path, patience=0.0)
    with pytest.raises(UnreachableError, match=str(tmp_path)):
        service.pillar("base", "base", {})
    service.close()
