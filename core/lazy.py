"""Records that are imported from their file at first use.

Defining a frozen dataclass takes a third of a millisecond, and a command line needs four of the
sixty records of the wire. A package of records assigns a LazyRecords to `record`, and its
module-level `__getattr__` (PEP 562) calls it, so that `from package import Name` works as usual.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict, Mapping, Type


class LazyRecords:
    """The records of one package, by name.

    Args:
        package: dotted name of the package.
        homes: module of the package -> names of its records, separated by spaces.
    """

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        self._package = package
        self._home_of = {name: home for home, names in homes.items() for name in names.split()}
        self._loaded: Dict[str, Type[Any]] = {}

    def __call__(self, name: str) -> Type[Any]:
        """Return the record *name*; raise AttributeError if there is none."""
        if name not in self._loaded:
            home = self._home_of.get(name)
            if home is None:
                raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
            self._loaded[name] = getattr(import_module(f"{self._package}.{home}"), name)
        return self._loaded[name]


class LazyModule:
    """A module that is imported at the first use of an attribute.

    Args:
        name: its dotted name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
