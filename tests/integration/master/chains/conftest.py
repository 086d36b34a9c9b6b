from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.master.chains.bench import Bench, a_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Yield a bench with the minion `web1` and a store of its own in `tmp_path`."""
    async with a_bench(tmp_path) as made:
        yield made
