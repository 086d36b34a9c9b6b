"""sysfs.*: attributes of the kernel's devices, below /sys."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Dict, List, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.files import read_limited
from catena.core.plugins import function

_ROOT = Path("/sys")
#: Maximum size of an attribute, in bytes.
_LIMIT = 1024 * 1024


def _path(key: Any, root: str = "") -> Path:
    """Return the real path of an attribute.

    Raises:
        UsageError: it does not lie in /sys.
    """
    text = f"{root}/{key}".strip("/")
    if text.startswith("sys/"):
        text = text[len("sys/") :]
    real = Path(os.path.realpath(_ROOT / text))
    if "\0" in text or (real != _ROOT and _ROOT not in real.parents):
        raise UsageError(f"{str(key)[:80]!r} does not lie in {_ROOT}")
    return real


def _value(path: Path) -> Any:
    """Return an attribute as number or text; False if it is empty or can't be read."""
    try:
        text = read_limited(path, _LIMIT).decode("utf-8", "replace").strip()
    except (OSError, LimitError):
        return False
    if re.match(r"-?\d+\Z", text):
        return int(text)
    return text or False


@function(reads=True)
def read(context: Context, key: Union[str, List[str]], root: str = "") -> Any:
    """Return an attribute, or those of a folder by name; False if there is none.

    Args:
        context: the host.
        key: path below /sys; for a list a mapping of those that exist.
        root: a path before each key.

    Raises:
        UsageError: a path that does not lie in /sys.
    """
    if isinstance(key, (list, tuple)):
        rows = {str(one): read(context, one, root) for one in key}
        return {name: value for name, value in rows.items() if value is not False}
    path = _path(key, root)
    if path.is_dir():
        found: Dict[str, Any] = {}
        for one in sorted(path.iterdir()):
            mode = one.lstat().st_mode
            value = _value(one) if stat.S_ISREG(mode) and mode & 0o444 else False
            if value is not False:
                found[one.name] = value
        return found
    return _value(path)


@function(reads=True)
def target(context: Context, key: str, full: Any = True) -> Any:
    """Return the real path of an attribute, or with full: False its last part; False if none.

    Raises:
        UsageError: a path that does not lie in /sys.
    """
    path = _path(key)
    if not path.exists():
        return False
    return str(path) if full else path.name


@function()
def write(context: Context, key: str, value: Any) -> bool:
    """Write an attribute; return True.

    Raises:
        CommandExecutionError: there is none, or the kernel refuses the value.
        UsageError: a path that does not lie in /sys.
    """
    path = _path(key)
    if not path.is_file():
        raise CommandExecutionError(f"SysFS attribute {key} doesn't exist.")
    try:
        path.write_text(f"{value}\n", encoding="utf-8")
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    return True
