"""What a minion is told with the order that starts a chain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from catena.core.job import BOUNDARY_SECONDS, ChainManifest
from catena.core.records import encode
from catena.master.chains import dispatch
from catena.master.chains.dependencies import ChainRules
from catena.master.chains.render import RenderedChain


@pytest.mark.parametrize("seconds", [BOUNDARY_SECONDS, 6 * BOUNDARY_SECONDS])
def test_a_minion_is_told_how_long_its_master_waits_for_a_boot_where_that_is_unusual(
    seconds: int,
) -> None:
    parts: Any = SimpleNamespace(rules=ChainRules(boundary_seconds=seconds))
    found: Any = SimpleNamespace(row=SimpleNamespace(id=7, user="root", epoch=1))
    rendered = RenderedChain((), ChainManifest(7, "mach1", 1, ()))
    request = dispatch.request(parts, found, dispatch.Rendering({"web1": rendered}), "key")
    told = encode(request.chains["web1"])
    usual = seconds == BOUNDARY_SECONDS
    assert told.get("boundary_seconds", "not said") == ("not said" if usual else seconds)
