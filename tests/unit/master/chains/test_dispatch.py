"""The order that starts a chain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from catena.core.job import BOUNDARY_SECONDS, ChainManifest
from catena.master.chains import batches, dispatch
from catena.master.chains.dependencies import ChainRules
from catena.master.chains.render import RenderedChain


@pytest.mark.parametrize("seconds", [BOUNDARY_SECONDS, 6 * BOUNDARY_SECONDS])
def test_minion_receives_the_boot_timeout_unless_it_is_the_default(
    seconds: int,
) -> None:
    parts: Any = SimpleNamespace(rules=ChainRules(boundary_seconds=seconds))
    found: Any = SimpleNamespace(row=SimpleNamespace(id=7, user="root", epoch=1))
    rendered = batches.of_chain(RenderedChain((), ChainManifest(7, "mach1", 1, ())))
    request = dispatch.request(parts, found, dispatch.RenderedDraft({"web1": rendered}), "key")
    told = request.payloads["web1"].body
    usual = seconds == BOUNDARY_SECONDS
    assert told.get("boundary_seconds", "not said") == ("not said" if usual else seconds)
