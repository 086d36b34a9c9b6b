"""Salt's Jinja filters, tests and globals."""

from __future__ import annotations

from typing import Any, Callable, Mapping

FILTERS: Mapping[str, Callable[..., Any]] = {}
TESTS: Mapping[str, Callable[..., Any]] = {}
GLOBALS: Mapping[str, Any] = {}
