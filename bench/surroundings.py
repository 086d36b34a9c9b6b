"""What a measured process finds around it, and the wait until it is there."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from bench.errors import BenchError
from bench.measure import MARK

T = TypeVar("T")

#: PATH of a service, where nobody sets another.
SERVICE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Where servers may listen: connections get theirs from 32768 on.
PORTS = range(10_000, 32_000)


def environment(mark: str = "") -> dict[str, str]:
    """Return the environment of a measured command, with the mark of a fixture.

    Without what makes Python slower or different than it is for a user.
    """
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") and name != MARK
    }
    return {**mine, "LC_ALL": "C.UTF-8", **({MARK: mark} if mark else {})}


def service_environment(mark: str) -> dict[str, str]:
    """Return the environment of a measured daemon, with the mark of a fixture.

    It is what systemd gives to a system service without a user of its own: a path and a locale
    (systemd.exec(5), "Environment Variables in Spawned Processes"), nothing of who measures. A
    SHELL above all is not there: both catena and Salt would run commands in it.
    """
    return {"PATH": SERVICE_PATH, "LANG": "C.UTF-8", MARK: mark}


def free_ports(count: int) -> int:
    """Return the first of *count* ports in a row that are free on the loopback device.

    Somewhere below those that Linux gives to connections: nobody else takes them before their use.
    """
    for first in random.SystemRandom().sample(PORTS, 200):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise BenchError(f"no {count} ports in a row are free")


def wait_for(what: str, ready: Callable[[], T], patience: float = 60.0, pause: float = 0.02) -> T:
    """Return the first true value of *ready*, which is asked every *pause* seconds.

    Raises:
        BenchError: it gave none in time.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = ready()
        if value:
            return value
        time.sleep(pause)
    raise BenchError(f"waited {patience:.0f} s for {what}")
