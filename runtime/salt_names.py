"""Stand-ins for the names of the `salt` package that public custom modules import.

They cover `salt.exceptions` and a small part of `salt.utils`. They are importable only inside
`salt_names()`, while a custom module loads or runs, so that no other code in this process mistakes
them for Salt.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import catena
from catena.core.errors import CommandExecutionError
from catena.runtime import salt_utils

_depth = [0]
_saved: Dict[str, ModuleType] = {}


@contextmanager
def salt_names() -> Iterator[None]:
    """Make `import salt.…` find the stand-ins; restore the previous modules at the end."""
    if _depth[0] == 0:
        ours = _modules()
        _saved.update({n: m for n, m in sys.modules.items() if n.partition(".")[0] == "salt"})
        for name in _saved:
            del sys.modules[name]
        sys.modules.update(ours)
    _depth[0] += 1
    try:
        yield
    finally:
        _depth[0] -= 1
        if _depth[0] == 0:
            for name in [n for n in sys.modules if n.partition(".")[0] == "salt"]:
                del sys.modules[name]
            sys.modules.update(_saved)
            _saved.clear()


class SaltException(Exception):  # noqa: N818 - Salt's name
    """Base of Salt's exceptions, with the attributes that custom modules use."""

    def __init__(self, message: Any = "") -> None:
        super().__init__(message)
        self.message = self.strerror = message


class SaltInvocationError(SaltException, TypeError):
    """A function was called with wrong arguments."""


class MinionError(SaltException):
    """The minion failed."""


class SaltRenderError(SaltException):
    """A template can't be rendered."""


class CommandNotFoundError(SaltException):
    """A program is not installed."""


class TimedProcTimeoutError(SaltException):
    """A program took too long."""


class LoaderError(SaltException):
    """A module can't be loaded."""


def _exceptions() -> Dict[str, Any]:
    ours = (
        SaltException,
        SaltInvocationError,
        MinionError,
        SaltRenderError,
        CommandNotFoundError,
        TimedProcTimeoutError,
        LoaderError,
    )
    found: Dict[str, Any] = {kind.__name__: kind for kind in ours}
    for name in ("SaltSystemExit", "SaltConfigurationError", "AuthenticationError"):
        found[name] = SaltException
    for name in ("FileserverConfigError", "SaltCacheError", "SaltDeserializationError"):
        found[name] = SaltException
    return {**found, "CommandExecutionError": CommandExecutionError}


def _to_str(value: Any, encoding: Optional[str] = None, errors: str = "strict") -> str:
    return value.decode(encoding or "utf-8", errors) if isinstance(value, bytes) else str(value)


def _to_bytes(value: Any, encoding: Optional[str] = None, errors: str = "strict") -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(encoding or "utf-8", errors)


def _traverse(data: Any, key: str, default: Any = None, delimiter: str = ":") -> Any:
    for part in key.split(delimiter):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and part.lstrip("-").isdigit() and int(part) < len(data):
            data = data[int(part)]
        else:
            return default
    return data


def _merge(
    base: Dict[str, Any], other: Mapping[str, Any], merge_lists: bool = False
) -> Dict[str, Any]:
    for key, value in other.items():
        mine = base.get(key)
        if isinstance(mine, dict) and isinstance(value, Mapping):
            _merge(mine, value, merge_lists)
        elif merge_lists and isinstance(mine, list) and isinstance(value, list):
            base[key] = mine + [item for item in value if item not in mine]
        else:
            base[key] = value
    return base


def _which(program: str = "") -> Optional[str]:
    return shutil.which(program) if program else None


def _which_bin(programs: List[str]) -> Optional[str]:
    return next((found for found in map(_which, programs) if found), None)


def _is_true(value: Any = None) -> bool:
    if isinstance(value, str):
        return value.lower() in ("true", "1", "yes", "on")
    return bool(value)


def _clean_kwargs(**kwargs: Any) -> Dict[str, Any]:
    return {key: value for key, value in kwargs.items() if not key.startswith("__")}


def _decorator(*_: Any, **__: Any) -> Callable[[Any], Any]:
    def same(function: Any) -> Any:
        return function

    return same


def _memoize(function: Any) -> Any:
    return functools.lru_cache(maxsize=None)(function)


def _warn_until(version: Any, message: str, *_: Any, **__: Any) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _platforms() -> Dict[str, Callable[[], bool]]:
    names = ("windows", "darwin", "sunos", "smartos", "freebsd", "netbsd", "openbsd", "aix")
    found: Dict[str, Callable[[], bool]] = {f"is_{name}": lambda: False for name in names}
    found["is_proxy"] = lambda: False
    found["is_linux"] = lambda: True
    return found


def _yaml() -> Dict[str, Callable[..., Any]]:
    def safe_load(stream: Any, *_: Any, **__: Any) -> Any:
        import yaml

        return yaml.safe_load(stream)

    def safe_dump(data: Any, stream: Any = None, **options: Any) -> Any:
        import yaml

        options.setdefault("default_flow_style", False)
        return yaml.safe_dump(data, stream, **options)

    return {"safe_load": safe_load, "load": safe_load, "safe_dump": safe_dump, "dump": safe_dump}


def _repacked(data: Any, *_: Any, **__: Any) -> Dict[str, Any]:
    """Merge a list of one-key mappings into one; an item that is no mapping maps to None."""
    found: Dict[str, Any] = {}
    for item in data or ():
        found.update(item if isinstance(item, Mapping) else {item: None})
    return found


def _serializer(write: Callable[..., str], read: Callable[..., Any]) -> Dict[str, Any]:
    return {"serialize": write, "deserialize": read, "available": True}


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

_UTILS: Dict[str, Callable[[], Dict[str, Any]]] = {
    "args": lambda: {"clean_kwargs": _clean_kwargs, "shlex_split": shlex.split},
    "data": lambda: {
        "is_true": _is_true,
        "traverse_dict": _traverse,
        "traverse_dict_and_list": _traverse,
        "compare_dicts": salt_utils.compare_dicts,
        "recursive_diff": salt_utils.compare_dicts,
        "repack_dictlist": _repacked,
    },
    "decorators": lambda: {"depends": _decorator, "memoize": _memoize},
    "decorators.path": lambda: {"which": _decorator, "which_bin": _decorator},
    "dictupdate": lambda: {
        "update": _merge,
        "merge_recurse": lambda first, second, merge_lists=False: _merge(
            copy.deepcopy(first), second, merge_lists
        ),
    },
    "files": lambda: {
        "fopen": open,
        "flopen": open,
        "fpopen": open,
        "is_binary": lambda path: False,
        **salt_utils.files(),
    },
    "json": lambda: {n: getattr(json, n) for n in ("dump", "dumps", "load", "loads")},
    "path": lambda: {"which": _which, "which_bin": _which_bin, "join": os.path.join},
    "platform": _platforms,
    "stringutils": lambda: {
        "to_str": _to_str,
        "to_unicode": _to_str,
        "to_bytes": _to_bytes,
        "to_num": lambda text: float(text) if re.search(r"[.eE]", text) else int(text),
    },
    "versions": lambda: {"warn_until": _warn_until, **salt_utils.versions()},
    "yaml": _yaml,
}


@functools.cache
def _modules() -> Dict[str, ModuleType]:
    """Return the stand-in modules by full name, each set as an attribute of its parent."""
    contents: Dict[str, Dict[str, Any]] = {
        "salt": {"__version__": catena.__version__},
        "salt.defaults": {},
        "salt.defaults.exitcodes": dict(_EXIT_CODES),
        "salt.exceptions": _exceptions(),
        "salt.serializers": {},
        "salt.serializers.json": _serializer(json.dumps, json.loads),
        "salt.serializers.yaml": _serializer(_yaml()["dump"], _yaml()["load"]),
        "salt.utils": {},
        "salt.version": {"__version__": catena.__version__},
    }
    every = {**_UTILS, **salt_utils.MORE}
    contents.update({f"salt.utils.{name}": make() for name, make in every.items()})
    found: Dict[str, ModuleType] = {}
    for name in sorted(contents):
        module = ModuleType(name)
        module.__dict__.update(contents[name])
        module.__path__ = []
        found[name] = module
        above, _, leaf = name.rpartition(".")
        if above:
            setattr(found[above], leaf, module)
    return found
