from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from catena.core import ids
from catena.core.ids import BadNameError, JidFactory


@pytest.mark.parametrize("text", ["a", "web-1.example.org", "0", "A_b", "x" * 253])
def test_minion_id_of_letters_digits_dots_hyphens_and_underscores_is_valid(text: str) -> None:
    assert ids.minion_id(text) == text


@pytest.mark.parametrize(
    "text", ["", ".hidden", "-x", "a/b", "a b", "ä", "a\n", "..", "x" * 254, "a\0", "*"]
)
def test_minion_id_that_could_be_a_path_or_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadNameError):
        ids.minion_id(text)


@pytest.mark.parametrize("text", ["", "x" * 65, "a/b"])
def test_machine_id_of_more_than_64_characters_is_refused(text: str) -> None:
    assert ids.machine_id("x" * 64)
    with pytest.raises(BadNameError):
        ids.machine_id(text)


@pytest.mark.parametrize("text", ["2026112114280500000", "2026112114280500000x", "", "1\n" * 10])
def test_jid_without_twenty_digits_is_refused(text: str) -> None:
    assert ids.jid("20261121142805000000") == "20261121142805000000"
    with pytest.raises(BadNameError):
        ids.jid(text)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 20, "0" * 20, "00010101000000000000", "19691231235959999999", "20260230000000000000",
        "20261300000000000000", "20261122240000000000", "20261122236000000000",
        "20261122235960000000", "20261122100099999999", "\u0662" * 20,
    ],
)  # fmt: skip
def test_jid_is_refused_when_its_digits_are_no_time(text: str) -> None:
    assert not ids.is_jid(text)
    with pytest.raises(BadNameError):
        ids.jid(text)


@pytest.mark.parametrize("text", ["19700101000000000000", "99991231235959999999"])
def test_jid_may_be_any_time_since_the_epoch(text: str) -> None:
    assert ids.jid(text) == ids.jid_at(ids.jid_time(text)) == text


@pytest.mark.parametrize("text", ["", " a", "a ", "a\tb", "x" * 257])
def test_label_that_is_unprintable_or_ends_in_blanks_is_refused(text: str) -> None:
    assert ids.label("Patch night ü") == "Patch night ü"
    with pytest.raises(BadNameError):
        ids.label(text)


class Wall:
    def __init__(self) -> None:
        self.time = datetime(2026, 11, 21, 14, 28, 5, 123456, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def test_jid_is_the_time_in_utc() -> None:
    wall = Wall()
    wall.time = wall.time.astimezone(timezone(timedelta(hours=5)))
    assert JidFactory(wall)() == "20261121142805123456"


def test_jids_increase_when_the_clock_stands_still_or_goes_back() -> None:
    wall = Wall()
    make = JidFactory(wall)
    found = [make(), make()]
    wall.time -= timedelta(hours=1)
    found += [make(), make()]
    assert found == sorted(set(found))


def test_jid_factory_continues_after_the_last_jid_of_the_store() -> None:
    assert JidFactory(Wall(), "20991231235959999999")() == "21000101000000000000"


@pytest.mark.parametrize("last", ["20261122100099999999", "9" * 20, "0" * 20, "x", "٢" * 20])
def test_jid_factory_ignores_a_last_jid_that_is_no_time(last: str) -> None:
    assert JidFactory(Wall(), last)() == "20261121142805123456"


def test_jid_factory_goes_by_the_clock_when_the_last_jid_ends_the_calendar() -> None:
    assert JidFactory(Wall(), "99991231235959999999")() == "20261121142805123456"
