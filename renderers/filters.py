"""Salt's Jinja filters, tests and globals, by name."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Dict, Mapping

from jinja2 import pass_context
from jinja2.runtime import Context as Names

from catena.core.import_stubs import StandIn, standing_in

# Imported on first use: one or two rarely used filters need each of these.
_FOR_FEW = ("hashlib", "hmac", "pprint", "random", "secrets", "shutil", "socket", "string", "uuid")

with standing_in(*map(StandIn, _FOR_FEW)):
    from catena.renderers import (
        filters_data,
        filters_host,
        filters_net,
        filters_serial,
        filters_text,
    )

FILTERS: Mapping[str, Callable[..., Any]] = {
    **filters_serial.FILTERS,
    **filters_text.FILTERS,
    **filters_data.FILTERS,
    **filters_net.FILTERS,
    **filters_host.FILTERS,
}

TESTS: Mapping[str, Callable[..., Any]] = {
    "match": filters_text.test_match,
    "equalto": filters_text.test_equalto,
    "list": filters_data.is_list,
    "sorted": filters_data.is_sorted,
}


@pass_context
def show_full_context(names: Names) -> Dict[str, Any]:
    """Return every name that the template sees; values that are no plain data become text."""
    return {key: _simple(value) for key, value in names.get_all().items()}


def _simple(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _simple(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_simple(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


@pass_context
def ifelse(names: Names, *given: Any, **options: Any) -> Any:
    """Return what salt['match.ifelse'] returns: the value after the first target that matches."""
    return names["salt"]["match.ifelse"](*given, **options)


GLOBALS: Mapping[str, Any] = {
    "raise": filters_text.fail,
    "zip": zip,
    "odict": OrderedDict,
    "ifelse": ifelse,
    "show_full_context": show_full_context,
}
