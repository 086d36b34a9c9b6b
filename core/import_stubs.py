"""Modules that a library imports at once, and a short command never needs.

While the library is imported, a stand-in has their place. It loads the module for good when
something of it is asked for, by the interpreter's own import and its locks.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Iterator


class StandIn(ModuleType):
    """Has a module's place until something of it is asked for that was not given here.

    Args:
        name: of the module.
        given: what it has at once, by name.
    """

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name)
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        """Return what the module has under that name."""
        # Python's import asks a module for its __spec__, and would take the stand-in for good.
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


@contextmanager
def standing_in(*modules: StandIn) -> Iterator[None]:
    """Let stand-ins be imported instead of their modules, where these aren't loaded yet."""
    made = {one.__name__: one for one in modules if one.__name__ not in sys.modules}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in made.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
