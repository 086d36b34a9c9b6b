"""The output of simulated jobs, and a check that the master has stored exactly that."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from catena.master.store.tables import OUTPUT

#: Every stored part, those of a job one after the other.
QUERY = f"SELECT * FROM {OUTPUT.name} ORDER BY minion, jid, seq"


class Print(NamedTuple):
    """One part of a job's output, as it was sent."""

    attempt: int
    at: int
    size: int
    stream: str
    text: str


class Prints:
    """Everything that jobs have printed, by minion and job."""

    def __init__(self) -> None:
        self._parts: defaultdict[tuple[str, str], set[Print]] = defaultdict(set)

    def add(self, minion: str, jid: str, part: Print) -> None:
        """Note a part that is sent."""
        self._parts[minion, jid].add(part)

    def jobs(self) -> list[tuple[str, str]]:
        """Return minion and jid of the jobs that printed something."""
        return list(self._parts)

    def wrong(self, rows: Iterable[sqlite3.Row]) -> Iterator[str]:
        """Yield what is wrong with the stored parts of all jobs, in the order of their numbers.

        A stored part was printed, none is there twice, and each gap has its size.
        """
        ends: dict[tuple[str, str], tuple[int, int, int]] = {}
        for row in rows:
            job = (row["minion"], row["jid"])
            if job not in self._parts:
                # Of a hostile minion, which says what it likes of its own jobs.
                continue
            seq, attempt, upto = ends.get(job, (0, 0, 0))
            where = f"part {row['seq']} of job {row['jid']} on {row['minion']}"
            begins = upto if row["attempt"] == attempt else 0
            at, size = begins + row["missed"], row["upto"] - begins - row["missed"]
            part = Print(row["attempt"], at, size, row["stream"], row["text"])
            if part not in self._parts[job]:
                yield f"{where} was never printed: {part}"
            if row["seq"] != seq + 1 or (row["attempt"], row["upto"]) <= (attempt, upto):
                yield f"{where} does not follow part {seq}, which ends at {attempt}, {upto}"
            if row["missed"] < 0:
                yield f"{where} overlaps part {seq}"
            ends[job] = row["seq"], row["attempt"], row["upto"]
