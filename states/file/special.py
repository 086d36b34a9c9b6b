"""file.decode, patch, tidied, mknod, cached and not_cached: what is seldom needed of files."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Pattern, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.nested import MISSING, traverse
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.arguments import listed, split, truth
from catena.modules.cmd.options import RunOptions
from catena.modules.cmd.run import run as run_command
from catena.modules.file import attributes, content, source
from catena.modules.file.attributes import Wanted
from catena.modules.file.change import remove_path
from catena.modules.file.edits import compiled
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.paths import absolute

_DAY = 86400
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([bkmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@state()
def decode(
    context: Context,
    name: str,
    encoded_data: Optional[str] = None,
    contents_pillar: Optional[str] = None,
    encoding_type: str = "base64",
    checksum: str = "md5",
) -> StateResult:
    """Make *name* a file with the content that base64 text stands for.

    Args:
        context: of the run.
        name: absolute path.
        encoded_data: the text.
        contents_pillar: path of the text in the pillar instead.
        encoding_type: only base64.
        checksum: kind of hash that the changes show.
    """
    try:
        path = absolute(name)
        data = _decoded(context, encoded_data, contents_pillar, encoding_type)
        new = _hash(data, checksum)
        old = source.hash_file(path, checksum) if path.is_file() else None
        if old == new:
            return done("File is in the correct state.")
        changes = {"old": old, "new": new}
        if context.test:
            return would("Decoded file is set to be changed.", changes)
        content.write(path, data)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done("Encoded data was written", changes)


def _decoded(context: Context, text: Optional[str], pillar: Optional[str], kind: str) -> bytes:
    if kind != "base64":
        raise UsageError(f"encoding_type {kind!r} is not known; base64 is")
    if bool(text) == bool(pillar):
        raise UsageError("one of encoded_data and contents_pillar is needed, not both")
    found = traverse(context.pillar, str(pillar), MISSING) if pillar else text
    if found is MISSING:
        raise UsageError(f"Pillar data not found: {pillar}")
    try:
        return base64.b64decode("".join(str(found).split()), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UsageError(f"the data are not base64: {problem}") from problem


def _hash(data: bytes, kind: str) -> str:
    import hashlib

    if kind not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {kind!r}")
    return hashlib.new(kind, data).hexdigest()


@dataclass(frozen=True)
class PatchOptions:
    """Arguments of file.patch, with Salt's names and defaults."""

    source: Any = None
    source_hash: Any = ""
    source_hash_name: Optional[str] = None
    skip_verify: bool = False
    template: Optional[str] = None
    context: Any = None
    defaults: Any = None
    options: Any = ""
    reject_file: Optional[str] = None
    strip: Optional[int] = None
    saltenv: Optional[str] = None


@state()
def patch(context: Context, /, name: str, source: Any = None, **options: Any) -> StateResult:
    """Apply a patch to a file, or to the files below a folder, unless it is applied already.

    Args:
        context: of the run.
        name: absolute path of the file or folder.
        source: address of the patch.
        options: strip, options (of the program patch), reject_file, source_hash, skip_verify.
    """
    chosen, rest = split(PatchOptions, {**options, "source": source})
    warnings = likely_typos(PatchOptions, rest, "file.patch")
    try:
        result = _patched(context, absolute(name), chosen)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return StateResult(result.result, result.changes, result.comment, warnings)


def _patched(context: Context, path: Path, options: PatchOptions) -> StateResult:
    if not path.exists():
        return failed(f"{path} does not exist")
    where = source.Source(
        str(options.source),
        options.saltenv or context.saltenv,
        str(options.source_hash or ""),
        options.source_hash_name,
        truth(options.skip_verify),
    )
    found = source.fetch(context, where)
    if found is None:
        return failed(f"Source file {options.source} not found")
    words, cwd = _patch_words(path, found, options)

    def run(*more: str) -> Tuple[int, str]:
        ran = run_command(context, [*words, *more], RunOptions(cwd=cwd, python_shell=False))
        return ran.retcode, "\n".join(text for text in (ran.stdout, ran.stderr) if text)

    if run("--dry-run", "--reverse", "--force")[0] == 0:
        return done("Patch was already applied")
    code, said = run("--dry-run", "--forward")
    if code:
        return failed(f"Patch would not apply cleanly: {said}")
    if context.test:
        return would("The patch would be applied", {"patch": str(options.source)})
    rejects = [f"--reject-file={options.reject_file}"] if options.reject_file else []
    code, said = run("--forward", *rejects)
    if code:
        return failed(f"Patch failed: {said}")
    return done("Patch successfully applied", {"patch": said})


def _patch_words(
    path: Path, found: Path, options: PatchOptions
) -> Tuple[List[str], Optional[str]]:
    """Return the command and its folder."""
    import shlex

    more = shlex.split(str(options.options or ""))
    folder = path.is_dir()
    strip = int(options.strip) if options.strip is not None else (1 if folder else 0)
    words = ["patch", "--batch", f"--strip={strip}", f"--input={found}", *more]
    return (words, str(path)) if folder else ([*words, str(path)], str(path.parent))


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

    A limit of 0 counts as not given; without any limit every file that matches goes.

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
    """Yield what has to go, members before their folder."""
    wanted = [compiled(str(each)) for each in listed(options.matches)] or [compiled(".*")]
    kept = [compiled(str(each)) for each in listed(options.exclude)]
    now = time.time()
    for place, folders, files in os.walk(
        folder, topdown=False, followlinks=truth(options.followlinks)
    ):
        for entry in sorted([*files, *(n for n in folders if Path(place, n).is_symlink())]):
            path = Path(place, entry)
            if _named(path, options, wanted, kept) and _spent(path, options, now):
                yield path
        if truth(options.rmdirs):
            for entry in sorted(folders):
                path = Path(place, entry)
                if not path.is_symlink() and not any(path.iterdir()):
                    if _named(path, options, wanted, kept):
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


_NODES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}


@state()
def mknod(
    context: Context,
    name: str,
    ntype: str,
    major: int = 0,
    minor: int = 0,
    user: Any = None,
    group: Any = None,
    mode: Any = "0600",
) -> StateResult:
    """Make sure that *name* is a device (ntype c or b) or a pipe (p)."""
    try:
        path = absolute(name)
        if ntype not in _NODES:
            return failed(f"Node type unavailable: '{ntype}'. Available node types are c, b, p")
        wanted = Wanted(user, group, attributes.parse_mode(mode))
        if not os.path.lexists(path):
            if context.test:
                return would(f"{name} is set to be created", {"new": name})
            os.mknod(path, _NODES[ntype] | 0o600, os.makedev(int(major), int(minor)))
            attributes.apply(path, wanted)
            return done(f"{name} was created", {"new": name})
        status = path.lstat()
        same = stat.S_IFMT(status.st_mode) == _NODES[ntype]
        if not same or (ntype != "p" and status.st_rdev != os.makedev(int(major), int(minor))):
            return failed(f"{name} exists and is something else. Cannot continue")
        if context.test:
            lacking = attributes.differences(path, wanted)
            return would(f"{name} would be changed", lacking) if lacking else done("")
        return done(f"{name} is in the correct state", attributes.apply(path, wanted))
    except OSError as problem:
        return failed(f"{name}: {problem.strerror}")
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))


@state()
def cached(
    context: Context,
    name: str,
    source_hash: Any = "",
    source_hash_name: Optional[str] = None,
    skip_verify: bool = False,
    saltenv: Optional[str] = None,
    use_etag: bool = False,
) -> StateResult:
    """Make sure that a file of the file server or of the web is in this host's cache."""
    where = source.Source(
        name,
        saltenv or context.saltenv,
        str(source_hash or ""),
        source_hash_name,
        truth(skip_verify),
    )
    try:
        known = context.call("cp.is_cached", name, saltenv) if name.startswith("salt://") else ""
        if context.test:
            if known:
                return done(f"File already cached: {name}")
            return would(f"File will be cached: {name}")
        found = source.fetch(context, where)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    if found is None:
        return failed(f"Failed to cache {name}")
    if known:
        return done(f"File is cached to {found}")
    sums: Dict[str, Any] = {"hash": {"old": None, "new": source.hash_file(found)}}
    return done(f"File is cached to {found}", sums)


@state()
def not_cached(context: Context, name: str, saltenv: Optional[str] = None) -> StateResult:
    """Make sure that a file that was fetched is not in this host's cache."""
    try:
        place = str(context.call("cp.is_cached", name, saltenv) or "")
        below = context.host.cache_dir in Path(place).parents if place else False
        if not below:
            return done(f"{name} is not cached")
        if context.test:
            return would(f"File {place} will be removed from the cache")
        remove_path(Path(place))
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"File {place} was removed from the cache", {"removed": place})
