from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.core.errors import LimitError
from catena.runtime import journal as journals
from catena.runtime.journal import (
    Journal,
    JournalDamagedError,
    decode_all,
    encode_line,
    read_records,
)


def lines(count: int) -> bytes:
    return b"".join(encode_line({"kind": "begin", "n": n, "seq": n}) for n in range(1, count + 1))


def test_appended_records_are_read_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append({"kind": "received"})
        journal.append({"kind": "begin", "action": 4})
    with Journal(path) as journal:
        assert [(r["seq"], r["kind"]) for r in journal.records] == [(1, "received"), (2, "begin")]
    assert [r["kind"] for r in read_records(path)] == ["received", "begin"]


def test_missing_journal_has_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "journal") == []


def test_journal_is_for_its_owner_only(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal"):
        assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", range(1, len(encode_line({"kind": "begin", "n": 3, "seq": 3}))))
def test_torn_last_record_is_truncated_at_every_length(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    whole = lines(2)
    path.write_bytes(whole + lines(3)[len(whole) : len(whole) + cut])
    # A record that lacks nothing but its newline is whole.
    kept = 3 if len(whole) + cut == len(lines(3)) - 1 else 2
    with Journal(path) as journal:
        assert len(journal.records) == kept
        journal.append({"kind": "end"})
    assert [r["kind"] for r in read_records(path)] == [*(["begin"] * kept), "end"]


def test_tail_of_zeros_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(lines(2) + b"\x00" * 4096)
    with Journal(path) as journal:
        assert len(journal.records) == 2
    assert path.read_bytes() == lines(2)


@given(place=st.integers(0, len(lines(3)) - 1), bit=st.integers(0, 7))
def test_flipped_bit_in_any_record_is_damage(place: int, bit: int) -> None:
    data = bytearray(lines(3))
    data[place] ^= 1 << bit
    with pytest.raises(JournalDamagedError):
        decode_all(bytes(data))


@pytest.mark.parametrize("left", [0, 1, 20, len(lines(1)), len(lines(3)) - 2])
def test_shortened_journal_is_reported_as_damage(tmp_path: Path, left: int) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        for number in range(3):
            journal.append({"kind": "begin", "n": number})
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(JournalDamagedError, match="were written"):
        Journal(path)
    with pytest.raises(JournalDamagedError, match="were written"):
        read_records(path)


def test_damaged_mark_is_no_damage_of_the_journal(tmp_path: Path) -> None:
    path, mark = tmp_path / "journal", tmp_path / "journal.mark"
    with Journal(path) as journal:
        journal.append({"kind": "begin"})
    good = mark.read_bytes()
    for data in (b"", b"\0" * 26, good[:10], bytes([good[0] ^ 1]) + good[1:], b"f" * 26):
        mark.write_bytes(data)
        assert len(read_records(path)) == 1


def test_journal_that_grows_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append({"kind": "a"})
        decode = journals.decode_all

        def grows(data: bytes) -> tuple[list[journals.Record], int]:
            journal.append({"kind": "b"})
            return decode(data)

        monkeypatch.setattr(journals, "decode_all", grows)
        assert [record["kind"] for record in read_records(path)] == ["a"]


def test_journal_whose_folder_is_replaced_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        with Journal(tmp_path / name / "journal") as journal:
            for kind in "abc" if name == "old" else "z":
                journal.append({"kind": kind})
    marked = journals._marked_size

    def replaced(path: Path) -> int:
        size = marked(path)
        if (tmp_path / "new").exists():
            (tmp_path / "old").rename(tmp_path / "gone")
            (tmp_path / "new").rename(tmp_path / "old")
        return size

    monkeypatch.setattr(journals, "_marked_size", replaced)
    found = read_records(tmp_path / "old" / "journal")
    assert [record["kind"] for record in found] == ["z"]


def test_gap_in_the_numbers_is_damage() -> None:
    first, second, third = lines(3).splitlines(keepends=True)
    with pytest.raises(JournalDamagedError, match="record 2 has the number 3"):
        decode_all(first + third)
    assert second


def test_record_is_on_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real_write, real_sync = os.write, os.fsync

    def write(handle: int, data: bytes) -> int:
        order.append("write")
        return real_write(handle, data)

    def sync(handle: int) -> None:
        order.append("sync")
        real_sync(handle)

    with Journal(tmp_path / "journal") as journal:
        monkeypatch.setattr(os, "write", write)
        monkeypatch.setattr(os, "fsync", sync)
        journal.append({"kind": "begin"})
    assert order == ["write", "sync"]


def test_begin_record_that_does_not_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    written: list[int] = []

    def half(handle: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(real(handle, bytes(data)[:10]))
        return written[0]

    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append({"kind": "received"})
        size = path.stat().st_size
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            journal.append({"kind": "begin"})
        monkeypatch.undo()
        assert path.stat().st_size == size
        journal.append({"kind": "begin"})
    assert [r["kind"] for r in read_records(path)] == ["received", "begin"]


def test_end_of_an_action_uses_the_reserved_space_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    reserve = tmp_path / "journal.reserve"

    def full(handle: int, data: bytes) -> int:
        if reserve.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    with Journal(tmp_path / "journal") as journal:
        assert reserve.stat().st_size == journals.RESERVE_BYTES
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            journal.append({"kind": "begin"})
        journal.append({"kind": "end"}, use_reserve=True)
    assert [r["kind"] for r in read_records(tmp_path / "journal")] == ["end"]


def test_record_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "RECORD_LIMIT", 100)
    with Journal(tmp_path / "journal") as journal, pytest.raises(LimitError):
        journal.append({"kind": "end", "ret": "x" * 200})
