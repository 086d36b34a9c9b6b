from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.minion.records.sealed import SEAL_BYTES, salvage, seal

BODIES = [b"first", b"second" * 9, b"the third", b"4th, the last one"]
WHOLE = b"".join(seal(body) for body in BODIES)


def bodies(data: bytes) -> list[bytes]:
    return [body for body, _, _ in salvage(data).bodies]


def test_complete_records_are_found_with_their_offsets() -> None:
    found = salvage(WHOLE)
    assert [WHOLE[at + SEAL_BYTES : end] for _, at, end in found.bodies] == BODIES
    assert (found.damaged, found.torn) == (0, 0)


@given(place=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_flipped_bit_costs_one_body_at_most_and_is_counted(place: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= 1 << bit
    found = salvage(bytes(data))
    assert found.damaged == 1 or found.torn
    lost = [body for body in BODIES if body not in bodies(bytes(data))]
    assert len(lost) <= 1


@pytest.mark.parametrize("cut", range(1, SEAL_BYTES + len(BODIES[-1])))
def test_last_append_that_was_cut_short_is_torn(cut: int) -> None:
    found = salvage(WHOLE[:-cut])
    assert [body for body, _, _ in found.bodies] == BODIES[:-1]
    assert (found.damaged, bool(found.torn)) == (0, len(seal(BODIES[-1])) != cut)


def test_zeros_at_the_end_are_torn_and_zeros_in_between_are_damage() -> None:
    assert salvage(WHOLE + b"\0" * 4096)[1:] == (0, 4096)
    first, rest = seal(BODIES[0]), WHOLE[len(seal(BODIES[0])) :]
    assert salvage(b"\0" * len(first) + rest).damaged == 1
    assert bodies(b"\0" * len(first) + rest) == BODIES[1:]


def test_garbage_is_damage_without_bodies() -> None:
    found = salvage(bytes(range(1, 256)) * 4)
    assert found.bodies == []
    assert found.damaged + bool(found.torn) == 1


@pytest.mark.parametrize("size", range(1, len(seal(BODIES[0]))))
def test_file_that_is_shorter_than_one_record_is_damage(size: int) -> None:
    assert salvage(WHOLE[:size]) == ([], 1, 0)
