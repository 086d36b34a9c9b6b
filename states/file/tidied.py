"""file.tidied: remove old or large files."""

from __future__ import annotations

import os
import re
import stat
import time
from pathlib import Path
from typing import Any, Iterator, List, Optional, Pattern, Set

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file.change import remove_path
from catena.modules.file.edits import compiled
from catena.modules.shared.arguments import listed, split, truth
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.paths import absolute

_DAY = 86400
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class TidyOptions:
    """Arguments of file.tidied, with Salt's names and defaults."""

    age: Any = 0
    matches: Any = None
    rmdirs: bool = False
    size: Any = 0
    exclude: Any = None
    full_path_match: bool = False
    followlinks: bool = False
    time_comparison: str = "atime"
    age_size_logical_operator: str = "OR"
    age_size_only: Optional[str] = None
    rmlinks: bool = True


@state()
def tidied(context: Context, /, name: str, **options: Any) -> StateResult:
    """Remove old or large files below a folder.

    A limit of 0 counts as not given; without a limit every matching file is removed.

    Args:
        context: of the run.
        name: absolute path of the folder.
        options: age (days), size (bytes, or with k m g t), age_size_logical_operator (OR, AND),
            age_size_only (age, size), time_comparison (atime, mtime, ctime), matches and exclude
            (regular expressions of names), full_path_match, rmdirs (empty folders too), rmlinks.
    """
    chosen, rest = split(TidyOptions, options)
    warnings = likely_typos(TidyOptions, rest, "file.tidied")
    try:
        path = absolute(name)
        if not path.is_dir():
            return failed(f"{name} does not exist or is not a directory.")
        doomed = [str(each) for each in _doomed(path, chosen)]
        if not doomed:
            return done(f"Nothing to remove from directory {name}")
        if context.test:
            return would(f"{name} is set for tidy", {"removed": doomed})
        for each in doomed:
            remove_path(Path(each))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    comment = f"Removed {len(doomed)} files or directories from directory {name}"
    return StateResult(True, {"removed": doomed}, comment, warnings)


def _size_of(value: Any) -> float:
    found = _SIZE.match(str(value).strip())
    if found is None:
        raise UsageError(f"size {value!r} is no number of bytes, such as 10m")
    return float(found.group(1)) * _UNITS[found.group(2).lower()]


def _doomed(folder: Path, options: TidyOptions) -> Iterator[Path]:
    """Yield the paths to remove, members before their folder."""
    wanted = [compiled(str(each)) for each in listed(options.matches)] or [compiled(".*")]
    kept = [compiled(str(each)) for each in listed(options.exclude)]
    now = time.time()
    gone: Set[Path] = set()
    for place, folders, files in os.walk(
        folder, topdown=False, followlinks=truth(options.followlinks)
    ):
        for entry in sorted([*files, *(n for n in folders if Path(place, n).is_symlink())]):
            path = Path(place, entry)
            if _named(path, options, wanted, kept) and _spent(path, options, now):
                gone.add(path)
                yield path
        if truth(options.rmdirs):
            for entry in sorted(folders):
                path = Path(place, entry)
                if path.is_symlink() or not set(path.iterdir()) <= gone:
                    continue
                if _named(path, options, wanted, kept):
                    gone.add(path)
                    yield path


def _named(
    path: Path, options: TidyOptions, wanted: List[Pattern[str]], kept: List[Pattern[str]]
) -> bool:
    text = str(path) if truth(options.full_path_match) else path.name
    return any(one.match(text) for one in wanted) and not any(one.match(text) for one in kept)


def _spent(path: Path, options: TidyOptions, now: float) -> bool:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        if not truth(options.rmlinks):
            return False
    kinds = {"atime": status.st_atime, "mtime": status.st_mtime, "ctime": status.st_ctime}
    if options.time_comparison not in kinds:
        raise UsageError(f"time_comparison is one of {', '.join(kinds)}")
    age, size = abs(float(options.age or 0)), abs(_size_of(options.size or 0))
    old = (now - kinds[options.time_comparison]) / _DAY >= age
    large = not stat.S_ISLNK(status.st_mode) and status.st_size >= size
    only = str(options.age_size_only or "").lower()
    if only == "age" or not size:
        return old
    if only == "size" or not age:
        return large
    return (old and large) if options.age_size_logical_operator.upper() == "AND" else old or large
