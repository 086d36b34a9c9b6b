"""`salt[...]` and `salt.module.function(...)` of templates: functions of a context by name."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterator, List

from catena.core.context import Context
from catena.core.errors import NotFoundError
from catena.core.template_calls import calling, is_noting


class FunctionCalls:
    """The execution functions of a context, called as Salt's `__salt__` and Jinja's `salt` are.

    Args:
        context: of the calls.
        file: name of the file that is rendered; in test mode it is noted which functions the file
            calls that may change something (`core.template_calls`).
    """

    def __init__(self, context: Context, file: str = "") -> None:
        self._context = context
        self._file = file
        self._noting = is_noting()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        try:
            plugin = self._context.functions[name]
        except NotFoundError as error:
            raise KeyError(str(error)) from None
        if self._noting and not getattr(plugin.mark, "reads", False):
            return partial(self._noted, name)
        return partial(self._context.call, name)

    def _noted(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        with calling(name, self._file):
            return self._context.call(name, *args, **kwargs)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and "." in name and name in self._context.functions

    def __getattr__(self, module: str) -> FunctionModule:
        if module.startswith("__") or not self._context.functions.module(module):
            raise AttributeError(f"'FunctionCalls object' has no attribute '{module}'")
        return FunctionModule(self, module)

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.functions)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the function called *name*, or *default*."""
        return self[name] if name in self else default

    def modules(self) -> List[str]:
        """Return the names before the dot."""
        return self._context.functions.prefixes()

    def names(self) -> List[str]:
        """Return every name. It imports all modules, so only error messages use it."""
        return self._context.functions.names()


class FunctionModule:
    """The functions of one module: `salt.test` of `salt.test.ping()`."""

    def __init__(self, calls: FunctionCalls, module: str) -> None:
        self._calls = calls
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        full = full_name(self, name)
        if name.startswith("__") or full not in self._calls:
            raise AttributeError(f"'FunctionCalls object' has no attribute '{full}'")
        return self._calls[full]


def full_name(module: FunctionModule, name: str) -> str:
    """Return "module.name". This is no method: every attribute of a module names a function."""
    return f"{module._module}.{name}"
