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
def test_unknown_name_is_reported_with_the_nearest_name_or_with_all_if_few(
    name: str, few: bool, text: str
) -> None:
    assert unknown("action", name, iter(KINDS), few=few) == text


def test_nearest_name_needs_the_given_likeness() -> None:
    assert nearest("boot", KINDS) == "reboot"
    assert nearest("boot", KINDS, likeness=0.9) is None
