"""Fixtures of all simulations."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim import world


@pytest.fixture(scope="module")
def below() -> Iterator[Path]:
    """Give a folder that lies in memory where it can."""
    folder = world.folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
