from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.transport.raw_peers import Network


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    folder = tmp_path / "pki"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def network() -> Iterator[Network]:
    found = Network()
    yield found
    found.close()
