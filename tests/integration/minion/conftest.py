from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.integration.minion.harness import Pair, a_pair

PROBE = Path(__file__).with_name("probe.py")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Open a pair whose agent has the module `probe`, also under the name `state`."""
    modules = tmp_path / "c" / "extmods" / "modules"
    for folder in (tmp_path / "c", tmp_path / "c" / "extmods", modules):
        folder.mkdir(mode=0o700)
    shutil.copy(PROBE, modules / "probe.py")
    text = PROBE.read_text().replace("def hold(", "def sls(")
    (modules / "state.py").write_text(text)
    return partial(a_pair, tmp_path)
