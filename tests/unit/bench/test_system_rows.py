"""The states of the rows that look at the system are as many as the rows say, and valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import NotHereError
from bench.rows import system
from catena.modules.ssh import keys


@pytest.mark.parametrize("name", system.TREES)
def test_tree_has_the_states_that_its_row_counts(name: str, tmp_path: Path) -> None:
    try:
        files, sls = system.TREES[name](tmp_path)
    except NotHereError as error:
        pytest.skip(str(error))
    assert len(sls) == (system.RULES if name == "iptables" else system.STATES)
    if name == "pip":
        assert len(files) == len(sls)
        return
    (text,) = files.values()
    assert len([line for line in text.splitlines() if line[0] not in "*C"]) == len(sls)


def test_keys_are_valid_and_differ(tmp_path: Path) -> None:
    files, sls = system.TREES["ssh_auth"](tmp_path)
    (text,) = files.values()
    assert list(keys.by_key(text)) == list(sls)
