"""Results equal those recorded from Salt 3008.5, except those in salt-quirks.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.salt_cases import FOLDER, differences, load, names

QUIRKS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    (Path(FOLDER).parent / "salt-quirks.yaml").read_text()
)


def test_every_known_difference_is_of_a_case_and_has_a_reason() -> None:
    assert QUIRKS.keys() <= set(names())
    assert all(len(quirk["why"]) > 20 and quirk["differs"] for quirk in QUIRKS.values())


@pytest.mark.parametrize("name", names())
def test_recorded_case_gives_the_result_of_salt(name: str) -> None:
    known = QUIRKS.get(name, {}).get("differs", [])
    look = f"python -m tests.support.packs show tests/cases/salt {name}"
    assert differences(load(name)) == known, look
