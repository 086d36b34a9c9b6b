from __future__ import annotations

import pytest

from catena.master.jobs.output import next_part
from catena.master.jobs.output_rows import PART_COST, OutputEnd, OutputPart
from catena.transport.messages import JobOutput

JID = "20260101000000000001"
END = OutputEnd(seq=3, attempt=1, upto=100, kept=90)


def message(at: int, text: str = "abc", attempt: int = 1) -> JobOutput:
    return JobOutput(JID, attempt, at, len(text), "stdout", text)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (message(100), OutputPart(4, 1, 103, 0, "stdout", "abc")),
        (message(150), OutputPart(4, 1, 153, 50, "stdout", "abc")),
        # Resent, cut otherwise, or of a process that was replaced.
        (message(97), None),
        (message(99), None),
        (message(500, attempt=0), None),
        # The next process of the job begins anew, perhaps with a gap of its own.
        (message(0, attempt=2), OutputPart(4, 2, 3, 0, "stdout", "abc")),
        (message(7, attempt=2), OutputPart(4, 2, 10, 7, "stdout", "abc")),
    ],
)
def test_part_is_stored_once_with_the_gap_before_it(
    said: JobOutput, stored: OutputPart | None
) -> None:
    assert next_part(END, said, 1000) == stored


def test_limit_is_marked_once_and_nothing_follows_it() -> None:
    mark = next_part(END, message(100), 92 + PART_COST)
    assert mark == OutputPart(4, 1, 103, 0, "", "")
    assert next_part(OutputEnd(4, 1, 103, 90, is_full=True), message(103), 1000) is None


def test_part_that_fits_with_its_overhead_is_stored() -> None:
    stored = OutputPart(4, 1, 103, 0, "stdout", "abc")
    assert next_part(END, message(100), 93 + PART_COST) == stored
