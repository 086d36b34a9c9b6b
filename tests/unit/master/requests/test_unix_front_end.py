"""The names under which users of the unix socket are recorded."""

from __future__ import annotations

from catena.master.requests.unix_front_end import NAME_LIMIT, recorded_name


def test_recorded_name_fits_its_columns_and_stays_distinct() -> None:
    assert recorded_name("x" * NAME_LIMIT) == "x" * NAME_LIMIT
    names = [recorded_name("x" * NAME_LIMIT + end) for end in ("a", "b", "\udcff")]
    assert len(set(names)) == 3 and {len(name) for name in names} == {NAME_LIMIT}
