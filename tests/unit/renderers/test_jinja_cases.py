"""Templates of tests/cases/jinja.yaml render to what Salt made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.renderers import yaml
from catena.renderers.jinja import render
from catena.renderers.source import Source

CASES = yaml.load((Path(__file__).parents[2] / "cases" / "jinja.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["template"])[:60])
def test_template_renders_to_what_salt_gives(make_context: Any, case: dict[str, str]) -> None:
    found = render(make_context(), Source(case["template"], "salt://t"), {})
    assert found.text == case["gives"]
