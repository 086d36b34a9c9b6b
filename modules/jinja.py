"""jinja.*: variables and results of templates in the file roots, for tests."""

from __future__ import annotations

from typing import Any

from catena.core.context import Context
from catena.core.errors import NotFoundError, UsageError
from catena.core.plugins import function
from catena.core.suggest import unknown


def _rendered(context: Context, text: str, saltenv: str = "base") -> Any:
    from catena.renderers.pipeline import render
    from catena.renderers.source import Source

    return render(context, Source(text, "<string>", saltenv), "jinja|json").data


def _quoted(text: str) -> str:
    if any(character in text for character in "'\"\\\n{}%"):
        raise UsageError(f"{text!r} is no path or name in a template")
    return f"'{text}'"


@function(reads=True)
def load_map(context: Context, path: str, value: str) -> Any:
    """Return the variable *value* of the template at *path*.

    Raises:
        UsageError: *value* is no name.
        RenderError: the template has an error, or lacks the variable.
    """
    if not value.isidentifier():
        raise UsageError(f"{value!r} is no name of a variable")
    head = f"{{% from {_quoted(path)} import {value} with context %}}"
    return _rendered(context, f"{head}{{{{ {value} | tojson }}}}")


@function(reads=True)
def import_yaml(context: Context, path: str) -> Any:
    """Return the data that `import_yaml` gives for *path*."""
    return _rendered(
        context, f"{{% import_yaml {_quoted(path)} as data %}}{{{{ data | tojson }}}}"
    )


@function(reads=True)
def import_json(context: Context, path: str) -> Any:
    """Return the data that `import_json` gives for *path*."""
    return _rendered(
        context, f"{{% import_json {_quoted(path)} as data %}}{{{{ data | tojson }}}}"
    )


@function(reads=True)
def host_filter(context: Context, /, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the value of a filter that reads this host (which, get_uid, file_hashsum, …).

    The master renders templates for a host over SSH and calls such filters with this function.

    Args:
        context: the call's context.
        name: of the filter.
        args: its value, and its arguments.
        kwargs: its named arguments.

    Raises:
        NotFoundError: there is no such filter.
    """
    from catena.renderers.filters_host import FILTERS

    if name not in FILTERS:
        raise NotFoundError(unknown("filter of hosts", name, FILTERS))
    return FILTERS[name](*args, **kwargs)
