"""Placeholders for modules that a library imports but a short command never uses.

A placeholder takes the module's place while the library is imported. At the first use of an
attribute it loads the real module through Python's own import and its locks.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Iterator


class StandIn(ModuleType):
    """Takes a module's place until an attribute is used that was not given here.

    Args:
        name: of the module.
        given: attributes that are available without loading the module.
    """

    def __init__(self, name: str, **given: Any) -> None:
        super().__init__(name)
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        """Load the module and return its attribute *name*."""
        # Python's import reads __spec__; answering would make the placeholder permanent.
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


@contextmanager
def standing_in(*modules: StandIn) -> Iterator[None]:
    """Let placeholders be imported instead of their modules, unless those are loaded already."""
    made = {one.__name__: one for one in modules if one.__name__ not in sys.modules}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in made.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
