from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    folder = tmp_path / "pki"
    folder.mkdir(mode=0o700)
    return folder
