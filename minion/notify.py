"""Messages to systemd (sd_notify(3)), as datagrams."""

from __future__ import annotations

import os
import socket


class Notifier:
    """Reports the daemon's state to the service manager, if there is one.

    Args:
        address: NOTIFY_SOCKET.
        watchdog_usec: WATCHDOG_USEC, or "" without a watchdog.
    """

    def __init__(self, address: str, watchdog_usec: str = "") -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        #: Seconds between two watchdog messages: half of the manager's limit; 0: none needed.
        self.interval = int(watchdog_usec) / 2e6 if watchdog_usec.isdigit() else 0.0

    @classmethod
    def from_environment(cls) -> Notifier:
        """Return the notifier of this process."""
        return cls(os.environ.get("NOTIFY_SOCKET", ""), os.environ.get("WATCHDOG_USEC", ""))

    def send(self, text: str) -> None:
        """Send one assignment, such as READY=1 or WATCHDOG=1."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            try:
                sock.sendto(text.encode("utf-8"), self._address)
            except OSError:
                # The manager is gone or restarting; the next message will reach it.
                return
