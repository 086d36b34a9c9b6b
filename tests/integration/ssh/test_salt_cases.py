"""Recorded cases of Salt give the same results over SSH, except those in salt-ssh-quirks.yaml.

The default run takes some cases of each topic; the others are slow ones (`-m slow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.salt_cases import FOLDER, differences, load, names
from tests.support.ssh_cases import PushedStage

_CASES = Path(FOLDER).parent
QUIRKS: Mapping[str, Mapping[str, Any]] = {
    **yaml.safe_load((_CASES / "salt-quirks.yaml").read_text()),
    **yaml.safe_load((_CASES / "salt-ssh-quirks.yaml").read_text()),
}
#: Of each topic, the cases in which most of what SSH makes different takes part.
USUAL = frozenset(
    """cmd/script custom/module_autosync file/recurse file/managed_source
    jinja/salt_calls jinja/map_context requisites/watch_test_mod_watch
    requisites/prereq_multi pillar/pillar_in_jinja""".split()
)


def test_every_known_difference_is_of_a_case_and_has_a_reason() -> None:
    assert QUIRKS.keys() <= set(names())
    assert all(len(quirk["why"]) > 20 and quirk["differs"] for quirk in QUIRKS.values())


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in USUAL else pytest.mark.slow) for n in names()],
)
def test_recorded_case_gives_the_same_result_over_ssh(name: str) -> None:
    assert differences(load(name), PushedStage) == QUIRKS.get(name, {}).get("differs", [])
