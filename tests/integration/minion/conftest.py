from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.minion.harness import Agent, MasterDouble, a_pair

PROBE = Path(__file__).with_name("probe.py")

Scenario = Callable[[MasterDouble, Agent], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Run a scenario with a pair whose agent has the module `probe`, also under the name state."""
    modules = tmp_path / "c" / "extmods" / "modules"
    for folder in (tmp_path / "c", tmp_path / "c" / "extmods", modules):
        folder.mkdir(mode=0o700)
    shutil.copy(PROBE, modules / "probe.py")
    text = PROBE.read_text().replace("def hold(", "def sls(")
    (modules / "state.py").write_text(text)

    def go(scenario: Scenario, **settings: Any) -> None:
        async def whole() -> None:
            async with a_pair(tmp_path, **settings) as (master, agent):
                await scenario(master, agent)

        asyncio.run(whole())

    return go
