"""Salt's Jinja filters, tests and globals, by name."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from catena.renderers import filters_data, filters_host, filters_text

FILTERS: Mapping[str, Callable[..., Any]] = {
    **filters_text.FILTERS,
    **filters_data.FILTERS,
    **filters_host.FILTERS,
}

TESTS: Mapping[str, Callable[..., Any]] = {
    "match": filters_text.test_match,
    "equalto": filters_text.test_equalto,
    "list": filters_data.is_list,
    "sorted": filters_data.is_sorted,
}

GLOBALS: Mapping[str, Any] = {"raise": filters_text.fail, "zip": zip}
