"""Stand-ins for the modules of `salt.utils` that most custom modules import."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional

from catena.runtime.salt import more_utils


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


def _which(program: str = "") -> Optional[str]:
    return shutil.which(program) if program else None


def _which_bin(programs: List[str]) -> Optional[str]:
    return next((found for found in map(_which, programs) if found), None)


def is_true(value: Any = None) -> bool:
    """Return whether *value* is true, also as a word."""
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


def yaml_names() -> Dict[str, Callable[..., Any]]:
    """Return the names of `salt.utils.yaml`."""

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


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Dict[str, Any]]] = {
    "salt.utils.args": lambda: {"clean_kwargs": _clean_kwargs, "shlex_split": shlex.split},
    "salt.utils.data": lambda: {
        "is_true": is_true,
        "traverse_dict": _traverse,
        "traverse_dict_and_list": _traverse,
        "compare_dicts": more_utils.compare_dicts,
        "recursive_diff": more_utils.compare_dicts,
        "repack_dictlist": _repacked,
    },
    "salt.utils.decorators": lambda: {"depends": _decorator, "memoize": _memoize},
    "salt.utils.decorators.path": lambda: {"which": _decorator, "which_bin": _decorator},
    "salt.utils.files": lambda: {
        "fopen": open,
        "flopen": open,
        "fpopen": open,
        "is_binary": lambda path: False,
        **more_utils.files(),
    },
    "salt.utils.json": lambda: {n: getattr(json, n) for n in ("dump", "dumps", "load", "loads")},
    "salt.utils.path": lambda: {"which": _which, "which_bin": _which_bin, "join": os.path.join},
    "salt.utils.platform": _platforms,
    "salt.utils.stringutils": lambda: {
        "to_str": _to_str,
        "to_unicode": _to_str,
        "to_bytes": _to_bytes,
        "to_num": lambda text: float(text) if re.search(r"[.eE]", text) else int(text),
    },
    "salt.utils.versions": lambda: {"warn_until": _warn_until, **more_utils.versions()},
    "salt.utils.yaml": yaml_names,
}
