"""file.find: a walk with conditions, as find(1) with Salt's option names."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.file.change import remove_path
from catena.modules.file.edits import compiled
from catena.modules.file.inspect import expand
from catena.modules.shared.arguments import listed
from catena.modules.shared.attributes import gid_of, group_name, uid_of, user_name

Check = Callable[[str, os.stat_result], bool]

_TYPES = {
    "b": stat.S_IFBLK,
    "c": stat.S_IFCHR,
    "d": stat.S_IFDIR,
    "f": stat.S_IFREG,
    "l": stat.S_IFLNK,
    "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
}
_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "": 86400}
_BYTES = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "": 1}
_AMOUNT = re.compile(r"([+-]?)(\d+(?:\.\d+)?)([a-z]?)")
_DURATION = re.compile(r"([+-]?)((?:\d+(?:\.\d+)?[wdhms]?)+)")


def _size(value: Any) -> Check:
    found = _AMOUNT.fullmatch(str(value).lower())
    if not found or found.group(3) not in _BYTES:
        raise UsageError(f"size: {value!r} is not [+-]NUMBER[bkmgt]")
    sign, number = found.group(1), float(found.group(2)) * _BYTES[found.group(3)]
    return lambda _, status: _compared(status.st_size, number, sign, _BYTES[found.group(3)])


def _compared(value: float, wanted: float, sign: str, unit: float) -> bool:
    if sign == "+":
        return value >= wanted
    if sign == "-":
        return value <= wanted
    return wanted <= value < wanted + unit


def _mtime(value: Any) -> Check:
    found = _DURATION.fullmatch(str(value).lower())
    if not found:
        raise UsageError(f"mtime: {value!r} is not [+-]NUMBER[wdhms]")
    pairs = re.findall(r"(\d+(?:\.\d+)?)([wdhms]?)", found.group(2))
    age = sum(float(number) * _SECONDS[unit] for number, unit in pairs)
    limit, older = time.time() - age, found.group(1) != "-"
    if found.group(1) == "":
        return lambda _, status: abs(status.st_mtime - limit) <= _SECONDS[pairs[-1][1]]
    return lambda _, status: (status.st_mtime <= limit) if older else (status.st_mtime >= limit)


def _types(value: Any) -> Check:
    wanted = []
    for letter in str(value).replace(",", ""):
        if letter not in _TYPES:
            raise UsageError(f"type: {letter!r} is none of {', '.join(_TYPES)}")
        wanted.append(_TYPES[letter])
    return lambda _, status: stat.S_IFMT(status.st_mode) in wanted


def _name(value: Any, ignore_case: bool = False) -> Check:
    expression = re.compile(fnmatch.translate(str(value)), re.IGNORECASE if ignore_case else 0)
    return lambda path, _: expression.match(path.rsplit("/", 1)[-1]) is not None


def _regex(value: Any, ignore_case: bool = False) -> Check:
    expression = compiled(str(value), re.IGNORECASE if ignore_case else 0)
    return lambda path, _: expression.match(path.rsplit("/", 1)[-1]) is not None


def _users(value: Any) -> Check:
    uids = {uid_of(user) for user in listed(value)}
    return lambda _, status: status.st_uid in uids


def _groups(value: Any) -> Check:
    gids = {gid_of(group) for group in listed(value)}
    return lambda _, status: status.st_gid in gids


def _grep(value: Any) -> Check:
    expression = compiled(str(value))

    def found(path: str, status: os.stat_result) -> bool:
        if not stat.S_ISREG(status.st_mode):
            return False
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as stream:
                return any(expression.search(line) for line in stream)
        except OSError:
            return False

    return found


def _empty(_: Any) -> Check:
    def found(path: str, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode):
            return not any(Path(path).iterdir())
        return stat.S_ISREG(status.st_mode) and status.st_size == 0

    return found


_CHECKS: Dict[str, Callable[[Any], Check]] = {
    "name": _name,
    "iname": lambda value: _name(value, True),
    "regex": _regex,
    "iregex": lambda value: _regex(value, True),
    "type": _types,
    "owner": _users,
    "group": _groups,
    "size": _size,
    "mtime": _mtime,
    "grep": _grep,
    "empty": _empty,
}
_OTHERS = ("maxdepth", "mindepth", "print", "delete", "exec")


def walk(root: str, low: int, high: int) -> Iterator[Tuple[str, os.stat_result]]:
    """Yield (path, status) below *root* between two depths.

    As in Salt, the status is that of a link's target, or of the link itself if it is dangling.
    The walk does not follow links to folders.
    """
    pending: List[Tuple[str, int]] = [(root, 0)]
    while pending:
        path, depth = pending.pop()
        try:
            status = os.lstat(path)
        except OSError:
            continue  # it was removed meanwhile
        if depth >= low:
            yield path, _followed(path, status)
        if stat.S_ISDIR(status.st_mode) and depth < high:
            try:
                names = sorted(os.listdir(path), reverse=True)  # noqa: PTH208  # strings, quickly
            except OSError:
                continue  # not readable for this user
            pending.extend((f"{path.rstrip('/')}/{name}", depth + 1) for name in names)


def _followed(path: str, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISLNK(status.st_mode):
        return status
    try:
        return os.stat(path)  # noqa: PTH116  # strings, quickly
    except OSError:
        return status


def _shown(path: str, status: os.stat_result, what: List[str]) -> Any:
    values = {
        "path": path,
        "name": path.rsplit("/", 1)[-1],
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "user": user_name(status.st_uid),
        "group": group_name(status.st_gid),
        "mtime": int(status.st_mtime),
        "type": next((k for k, v in _TYPES.items() if v == stat.S_IFMT(status.st_mode)), "?"),
    }
    chosen = [values.get(name, "") for name in what] or [path]
    return chosen[0] if len(chosen) == 1 else chosen


@function()
def find(context: Context, /, path: str, **kwargs: Any) -> List[Any]:
    """Return the paths at and below *path* that meet all conditions.

    Args:
        context: the call's context.
        path: where to start.
        kwargs: name, iname (shell patterns), regex, iregex (of names), type (bcdflps), owner,
            group, size ([+-]N[bkmgt]), mtime ([+-]N[wdhms], + is older), grep, empty, mindepth,
            maxdepth, print (path, name, size, mode, user, group, mtime, type), delete (types).

    Raises:
        UsageError: a condition that is not known or malformed.
    """
    options = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    checks: List[Check] = []
    for key, value in options.items():
        if key in _CHECKS:
            checks.append(_CHECKS[key](value))
        elif key not in _OTHERS:
            raise UsageError(unknown("condition", key, [*_CHECKS, *_OTHERS]))
    if "exec" in options:
        raise UsageError("file.find runs no commands; use cmd.run with find")
    high = int(options.get("maxdepth", 2**31))
    found = [
        (name, status)
        for start in _starts(path)
        for name, status in walk(start, int(options.get("mindepth", 0)), high)
        if all(check(name, status) for check in checks)
    ]
    if "delete" in options:
        doomed = _types(options["delete"] or "f")
        # Links count as links, so that a link never causes the removal of its target.
        found = [(name, status) for name, status in reversed(found) if _is_doomed(name, doomed)]
        for name, _ in found:
            if not context.test and os.path.lexists(name):
                remove_path(Path(name))
    what = listed(options.get("print"))
    return sorted((_shown(name, status, what) for name, status in found), key=str)


def _is_doomed(name: str, doomed: Check) -> bool:
    try:
        return doomed(name, os.lstat(name))
    except OSError:
        return False


def _starts(path: str) -> List[str]:
    """Return the paths that match a shell pattern, with ~ expanded; a trailing slash stays."""
    found = str(expand(path))
    shown = f"{found}/" if str(path).endswith("/") and found != "/" else found
    return sorted(glob.glob(shown)) or [shown]  # noqa: PTH207  # the pattern may be absolute
