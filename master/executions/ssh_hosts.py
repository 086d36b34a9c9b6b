"""The interface between engines and hosts that are reached only over SSH."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa


@dataclass(frozen=True)
class KnownHost:
    """Data about a host that is reached by SSH."""

    #: "" before the first visit.
    machine_id: str = ""
    boot_id: str = ""
    #: Why the host cannot be used; "" if no reason is known.
    unfit: str = ""
    #: Description of what the host waits for.
    detail: str = ""


class SshHosts(Protocol):
    """Visits hosts that are reached only by SSH (`master.push.worker.SshWorker`)."""

    def takes(self, name: str) -> bool:
        """Return whether *name* is such a host."""

    async def look_at(self, names: Collection[str]) -> None:
        """Visit those of *names* that were never visited."""

    def known(self, conn: sa.Connection, names: Collection[str]) -> Mapping[str, KnownHost]:
        """Return the data about those of *names* that are such hosts, by id."""

    def status_texts(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> Mapping[str, str]:
        """Return host -> its status as text; *ahead*: hosts whose run waits for another one."""


class NoSshHosts:
    """No hosts are reached by SSH."""

    def takes(self, name: str) -> bool:
        """Return False."""
        return False

    async def look_at(self, names: Collection[str]) -> None:
        """Do nothing."""

    def known(self, conn: sa.Connection, names: Collection[str]) -> Mapping[str, KnownHost]:
        """Return {}."""
        return {}

    def status_texts(
        self, conn: sa.Connection, names: Collection[str], ahead: Collection[str]
    ) -> Mapping[str, str]:
        """Return {}."""
        return {}
