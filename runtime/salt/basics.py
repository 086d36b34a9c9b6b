"""Stand-ins for `salt` itself and for its smallest modules."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from typing import Any, Callable, Dict, Mapping
from xml.etree import ElementTree

import catena
from catena.runtime.salt import utils

#: Content of salt.defaults.exitcodes: (name, exit code).
_EXIT_CODES = (
    ("EX_OK", 0),
    ("EX_GENERIC", 1),
    ("EX_USAGE", 64),
    ("EX_NOUSER", 67),
    ("EX_UNAVAILABLE", 69),
    ("EX_SOFTWARE", 70),
    ("EX_CANTCREAT", 73),
    ("EX_STATE_COMPILER_ERROR", 1),
    ("EX_STATE_FAILURE", 2),
)


def _serializer(write: Callable[..., str], read: Callable[..., Any]) -> Dict[str, Any]:
    return {"serialize": write, "deserialize": read, "available": True}


def _yaml_serializer() -> Dict[str, Any]:
    found = utils.yaml_names()
    return _serializer(found["dump"], found["load"])


def _version() -> Dict[str, Any]:
    return {"__version__": catena.__version__}


#: Names of each module, by its full name; dict: a package that only has modules.
NAMES: Mapping[str, Callable[[], Dict[str, Any]]] = {
    "salt": _version,
    "salt._compat": lambda: {
        "ElementTree": ElementTree,
        "ipaddress": ipaddress,
        "subprocess": subprocess,
    },
    "salt.defaults": dict,
    "salt.defaults.exitcodes": lambda: dict(_EXIT_CODES),
    "salt.ext": dict,
    "salt.grains": dict,
    "salt.modules": dict,
    "salt.serializers": dict,
    "salt.serializers.json": lambda: _serializer(json.dumps, json.loads),
    "salt.serializers.yaml": _yaml_serializer,
    "salt.states": dict,
    "salt.version": _version,
}
