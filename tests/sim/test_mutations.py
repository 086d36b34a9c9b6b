"""The checker detects errors: the product is broken on purpose, and some seed shows it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from catena.master.jobs import output, returns
from catena.master.jobs.output_rows import OutputEnd
from catena.minion.link.outbox import Outbox
from catena.runtime.chain_run import ChainHost
from catena.runtime.chain_store import Chain
from catena.runtime.chunk_run import ChunkHooks
from catena.runtime.journal import Journal, JournalDamagedError
from catena.runtime.resume_file import ResumeFile
from tests.sim import world
from tests.sim.breaking import SEARCH_SECONDS, Mutation, assert_detected
from tests.sim.cut_cases import assert_journal_keeps_appended_records
from tests.sim.world import World

#: Worlds until one must have shown it.
SEEDS = 200


def no_sync(stack: ExitStack, made: World) -> None:
    """What is written to a file is not synced."""
    made.stage.tap.skips.add("sync_file")


def no_folder_sync(stack: ExitStack, made: World) -> None:
    """Renamed and new files are not synced into their folders."""
    made.stage.tap.skips.add("sync_folder")


def no_begin(stack: ExitStack, made: World) -> None:
    """An action begins before its begin is in the journal."""
    real = Chain.record

    def record(self: Chain, kind: str, use_reserve: bool = False, **fields: Any) -> None:
        if kind == "begin" and self._journal is not None:
            with mock.patch.object(self._journal, "append", lambda *_: {}):
                real(self, kind, use_reserve, **fields)
            return
        real(self, kind, use_reserve, **fields)

    stack.enter_context(mock.patch.object(Chain, "record", record))


def repeats(stack: ExitStack, made: World) -> None:
    """What has ended runs again after a crash."""
    stack.enter_context(mock.patch.object(ChunkHooks, "_settled", lambda *_: None))


def no_proof(stack: ExitStack, made: World) -> None:
    """A chain is resumed without the proof of a boot."""
    stack.enter_context(mock.patch.object(ChainHost, "_unproven", lambda *_: ""))


def drops_resume_file(stack: ExitStack, made: World) -> None:
    """The resume file is deleted before the chunk has run, as the reference does."""
    stack.enter_context(mock.patch.object(ResumeFile, "take", lambda self: self.clear()))


def forgets_returns(stack: ExitStack, made: World) -> None:
    """A return is said once, and taken for stored."""
    real = Outbox.service

    def service(self: Outbox, now: float) -> None:
        real(self, now)
        for key in list(self._flying):
            self.acked(key)

    stack.enter_context(mock.patch.object(Outbox, "service", service))


def acks_early(stack: ExitStack, made: World) -> None:
    """A return is acked before it is committed."""
    now = mock.patch.object(returns, "after_commit", lambda conn, hook: hook())
    stack.enter_context(now)


def no_line(stack: ExitStack, made: World) -> None:
    """Another chain does not wait until the host has come back."""
    stack.enter_context(mock.patch("catena.minion.jobs.queue._held", lambda *_: False))


def takes_torn_records(stack: ExitStack, made: World | None) -> None:
    """A torn end of a journal stays in the file."""
    real = Journal._load

    def load(self: Journal) -> Any:
        with mock.patch("catena.runtime.journal.os.ftruncate", lambda *_: None):
            records, _ = real(self)
        return records, self.path.stat().st_size

    stack.enter_context(mock.patch.object(Journal, "_load", load))


def stores_twice(stack: ExitStack, made: World) -> None:
    """A part of output that is sent again is stored again."""
    real = output.next_chunk

    def next_chunk(end: OutputEnd, message: Any, limit: int) -> Any:
        known = (message.attempt, message.at + message.size) <= (end.attempt, end.upto)
        end = end._replace(attempt=message.attempt, upto=message.at) if known else end
        return real(end, message, limit)

    stack.enter_context(mock.patch.object(output, "next_chunk", next_chunk))


def hides_gaps(stack: ExitStack, made: World) -> None:
    """Nobody learns how much of the output is missing."""
    real = output.next_chunk

    def next_chunk(*given: Any) -> Any:
        part = real(*given)
        return part and part._replace(missed=0)

    stack.enter_context(mock.patch.object(output, "next_chunk", next_chunk))


#: What is broken -> a world that shows it.
MUTATIONS: Mapping[Mutation, int] = {
    no_sync: 1001,
    no_folder_sync: 1001,
    no_begin: 1001,
    repeats: 1051,
    no_proof: 5,
    drops_resume_file: 1231,
    forgets_returns: 8,
    acks_early: 1158,
    no_line: 1010,
}
#: The same, in worlds whose jobs print while they run.
OUTPUT_MUTATIONS: Mapping[Mutation, int] = {stores_twice: 60000030, hides_gaps: 60000012}


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda found: found.__name__)
def test_checker_detects_each_deliberate_error(mutation: Mutation, below: Path) -> None:
    seeds = range(world.LARGE + 1, world.LARGE + SEEDS + 1)
    assert_detected(mutation, below, MUTATIONS[mutation], seeds)


@pytest.mark.timeout(SEARCH_SECONDS)
@pytest.mark.parametrize("mutation", OUTPUT_MUTATIONS, ids=lambda found: found.__name__)
def test_checker_detects_wrongly_stored_output(mutation: Mutation, below: Path) -> None:
    seeds = range(world.STREAMING, world.STREAMING + SEEDS)
    assert_detected(mutation, below, OUTPUT_MUTATIONS[mutation], seeds)


def test_power_failure_checker_detects_a_journal_that_keeps_torn_records(below: Path) -> None:
    with ExitStack() as stack:
        takes_torn_records(stack, None)
        with pytest.raises((AssertionError, JournalDamagedError)):
            assert_journal_keeps_appended_records(below)
