"""`salt[...]` and `salt.module.function(...)` of templates: functions of a context by name."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterator, List

from catena.core.context import Context
from catena.core.errors import NotFoundError


class FunctionCalls:
    """The execution functions of a context, called as Salt's `__salt__` and Jinja's `salt` are."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getitem__(self, name: str) -> Callable[..., Any]:
        try:
            self._context.functions[name]
        except NotFoundError as error:
            raise KeyError(str(error)) from None
        return partial(self._context.call, name)

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
