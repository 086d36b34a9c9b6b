"""Make the names of the `salt` package importable for custom files, and only for them.

The stand-ins of `runtime/salt` can be imported inside `salt_names()`, while a custom file loads or
runs, so that no other code in this process mistakes them for Salt. Each is made at its first
import. A name that catena does not have fails with a message that contains the name.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.runtime.salt import current

#: Module of `catena.runtime.salt` -> the modules of Salt whose names its `NAMES` has.
_FILES: Mapping[str, str] = {
    "basics": "salt salt._compat salt.defaults salt.defaults.exitcodes salt.ext salt.grains "
    "salt.modules salt.serializers salt.serializers.json salt.serializers.yaml salt.states "
    "salt.version",
    "clients": "salt.client salt.fileclient salt.minion salt.runner salt.utils.event "
    "salt.utils.http salt.wheel",
    "exceptions": "salt.exceptions",
    "more_utils": "salt.utils.dictdiffer salt.utils.functools salt.utils.hashutils "
    "salt.utils.immutabletypes salt.utils.network salt.utils.odict salt.utils.systemd "
    "salt.utils.url salt.utils.user salt.utils.validate salt.utils.validate.net",
    "rendering": "salt.template salt.utils.decorators.jinja salt.utils.jinja salt.utils.templates",
    "six": "salt.ext.six salt.ext.six.moves salt.ext.six.moves.urllib "
    "salt.ext.six.moves.urllib.error salt.ext.six.moves.urllib.parse "
    "salt.ext.six.moves.urllib.request",
    "small_utils": "salt.utils salt.utils.dictupdate salt.utils.jid salt.utils.lazy "
    "salt.utils.minions salt.utils.pkg",
    "surroundings": "salt.config salt.grains.core salt.loader salt.log salt.log.setup "
    "salt.returners salt.syspaths",
    "utils": "salt.utils.args salt.utils.data salt.utils.decorators salt.utils.decorators.path "
    "salt.utils.files salt.utils.json salt.utils.path salt.utils.platform "
    "salt.utils.stringutils salt.utils.versions salt.utils.yaml",
}
#: Module of Salt -> the module of `catena.runtime.salt` that has its names.
INDEX: Mapping[str, str] = {
    name: place for place, names in _FILES.items() for name in names.split()
}
#: Packages whose modules are made from the functions of the running call: package -> kind.
_CALLERS = {"salt.modules": "functions", "salt.states": "states"}

_depth = [0]
_made: Dict[str, ModuleType] = {}
_saved: Dict[str, ModuleType] = {}


class SaltStandIn(ModuleType):
    """A stand-in for a module of Salt; an attribute that it lacks is an error with its name."""

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if not name.startswith("__"):
            if known(full):
                return module(full)
            call = _caller(self.__name__, name)
            if call is not None:
                return call
        raise AttributeError(f"catena has no {full} for custom files")


class _Finder:
    """Finds the stand-ins; refuses other modules of `salt` by name."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Return the spec of a stand-in; None for modules that are not Salt's."""
        if name.partition(".")[0] != "salt":
            return None
        if not known(name):
            raise ModuleNotFoundError(f"catena has no {name} for custom files", name=name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # has what is called

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        return module(spec.name)

    def exec_module(self, made: ModuleType) -> None:
        """Do nothing: the stand-in is complete."""


_finder = _Finder()


def known(name: str) -> bool:
    """Return whether there is a stand-in for the module *name* of Salt."""
    if name in INDEX:
        return True
    package, _, leaf = name.rpartition(".")
    return package in _CALLERS and bool(current.functions(_CALLERS[package], leaf))


def module(name: str) -> ModuleType:
    """Return the stand-in for the module *name*, made at the first call."""
    if name not in _made:
        made = _made[name] = SaltStandIn(name)
        made.__path__ = []
        if name in INDEX:
            place = import_module(f"catena.runtime.salt.{INDEX[name]}")
            made.__dict__.update(place.NAMES[name]())
    return _made[name]


def _caller(above: str, name: str) -> Any:
    """Return a function of a module below salt.modules or salt.states; None if it has none."""
    package, _, leaf = above.rpartition(".")
    if package not in _CALLERS:
        return None
    return current.caller(_CALLERS[package], leaf, name)


@contextmanager
def salt_names(context: Optional[Context] = None) -> Iterator[None]:
    """Make `import salt.…` find the stand-ins; restore the previous modules at the end.

    Args:
        context: of the call; None if there is no call.
    """
    if _depth[0] == 0:
        _saved.update(_salts())
        for name in _saved:
            del sys.modules[name]
        sys.meta_path.insert(0, _finder)
        sys.modules.update(_made)
    _depth[0] += 1
    current.contexts.append(context)
    try:
        yield
    finally:
        current.contexts.pop()
        _depth[0] -= 1
        if _depth[0] == 0:
            _restore()


def _restore() -> None:
    sys.meta_path.remove(_finder)
    for name in _salts():
        del sys.modules[name]
    sys.modules.update(_saved)
    _saved.clear()


def _salts() -> Dict[str, ModuleType]:
    return {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "salt"}
