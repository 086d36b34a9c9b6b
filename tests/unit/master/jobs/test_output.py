"""Which chunks of a running job's output are stored."""

from __future__ import annotations

import pytest

from catena.master.jobs.output import next_chunk
from catena.master.jobs.output_rows import CHUNK_COST, OutputChunk, OutputEnd
from catena.transport.messages import JobOutput

JID = "20260101000000000001"
END = OutputEnd(seq=3, attempt=1, upto=100, kept=90)


def message(at: int, text: str = "abc", attempt: int = 1) -> JobOutput:
    return JobOutput(JID, attempt, at, len(text), "stdout", text)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (message(100), OutputChunk(4, 1, 103, 0, "stdout", "abc")),
        (message(150), OutputChunk(4, 1, 153, 50, "stdout", "abc")),
        # Resent, overlapping, or of an earlier process of the job.
        (message(97), None),
        (message(99), None),
        (message(500, attempt=0), None),
        # The positions start at 0 for each process of the job; the first chunk may be missing.
        (message(0, attempt=2), OutputChunk(4, 2, 3, 0, "stdout", "abc")),
        (message(7, attempt=2), OutputChunk(4, 2, 10, 7, "stdout", "abc")),
    ],
)
def test_chunk_is_stored_once_with_the_gap_before_it(
    said: JobOutput, stored: OutputChunk | None
) -> None:
    assert next_chunk(END, said, 1000) == stored


def test_limit_is_marked_once_and_nothing_follows_it() -> None:
    mark = next_chunk(END, message(100), 92 + CHUNK_COST)
    assert mark == OutputChunk(4, 1, 103, 0, "", "")
    assert next_chunk(OutputEnd(4, 1, 103, 90, is_full=True), message(103), 1000) is None


def test_chunk_that_fits_with_its_overhead_is_stored() -> None:
    stored = OutputChunk(4, 1, 103, 0, "stdout", "abc")
    assert next_chunk(END, message(100), 93 + CHUNK_COST) == stored
