"""What a message about a wrong name offers."""

from __future__ import annotations

import pytest

from catena.core.suggest import nearest, unknown

KINDS = ("apply", "reboot", "script")


@pytest.mark.parametrize(
    ("name", "few", "text"),
    [
        ("reboott", False, "unknown action 'reboott'; did you mean 'reboot'?"),
        ("reboott", True, "unknown action 'reboott'; did you mean 'reboot'?"),
        ("zzz", False, "unknown action 'zzz'"),
        ("zzz", True, "unknown action 'zzz'; there are apply, reboot, script"),
    ],
)
def test_the_nearest_name_is_offered_or_all_where_they_are_few(
    name: str, few: bool, text: str
) -> None:
    assert unknown("action", name, iter(KINDS), few=few) == text


def test_only_a_slip_of_the_fingers_is_near_where_that_is_asked() -> None:
    assert nearest("boot", KINDS) == "reboot"
    assert nearest("boot", KINDS, likeness=0.9) is None
