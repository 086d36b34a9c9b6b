"""`Map` of the pyobjects renderer: attributes by grain."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Dict, List, Mapping, Tuple

from catena.core.context import Context

_GRAIN = "os_family"


def map_class(context: Context) -> type:
    """Return the class whose subclasses take their attributes from the inner classes that match.

    An inner class matches if a grain (`__grain__`, by default os_family) has the value
    `__match__`, by default the name of the class. Later classes win over earlier ones; with
    `priority`, a tuple of grains, those of later grains win. `merge` names a pillar key whose
    mapping wins over all of them.
    """

    class Meta(type):
        """Resolves the attributes when a subclass is created."""

        def __init__(cls, name: str, bases: Tuple[type, ...], body: Dict[str, Any]) -> None:
            super().__init__(name, bases, body)
            for key, value in _resolved(context, body).items():
                setattr(cls, key, value)

    return Meta("Map", (), {})


def _resolved(context: Context, body: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the attributes that match this host's grains and pillar."""
    found: Dict[str, Any] = {}
    for kind in _ordered(body):
        wanted = str(getattr(kind, "__match__", kind.__name__))
        grain = str(context.grains.get(_grain(kind), ""))
        if fnmatchcase(grain, wanted):
            found.update({key: item for key, item in vars(kind).items() if key[:1] != "_"})
    merge = body.get("merge")
    if isinstance(merge, str):
        lookup = context.call("pillar.get", merge)
        if isinstance(lookup, Mapping):
            found.update({str(key): item for key, item in lookup.items()})
    return found


def _grain(kind: type) -> str:
    return str(getattr(kind, "__grain__", _GRAIN))


def _ordered(body: Mapping[str, Any]) -> List[type]:
    """Return the inner classes, weakest first."""
    kinds = [item for item in body.values() if isinstance(item, type)]
    priority = body.get("priority")
    if not isinstance(priority, (list, tuple)):
        return kinds
    places = {str(grain): place for place, grain in enumerate(priority)}
    return sorted(kinds, key=lambda kind: places.get(_grain(kind), -1))
