"""Notifications of the master to systemd."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send *state* to the service manager, if there is one: READY=1, STOPPING=1 or WATCHDOG=1."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            # The service manager is gone, which does not matter to the master.
            return


def watchdog_seconds() -> float:
    """Return the interval in which the service manager expects WATCHDOG=1; 0.0: never."""
    micros = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "")
    if not micros.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(micros) / 1e6 / 2
