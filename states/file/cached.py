"""file.cached and file.not_cached: copies of files in this host's cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import source
from catena.modules.file.change import remove_path
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would


def _is_remote(name: str) -> bool:
    return "://" in name and not name.startswith("file://")


def _judged(context: Context, where: source.FileSource, path: Path, place: str) -> StateResult:
    """Compare the hash with the expected one; *place* is the path of the file."""
    wanted = None if where.skip_verify else source.expected_hash(context, where)
    if wanted is None:
        return done(f"File {place}")
    found = source.hash_file(path, wanted[0])
    if found == wanted[1]:
        joint = "with hash" if _is_remote(where.location) else "and has hash"
        return done(f"File {place} {joint} {found}")
    return failed(
        f"File {place}, but the hash ({found}) does not match the specified hash ({wanted[1]})"
    )


def _local(context: Context, where: source.FileSource) -> StateResult:
    scheme, _, rest = where.location.rpartition("file://")
    path = Path(rest if not scheme else where.location)
    if not path.is_file():
        return failed(f"File {path} is not present on the minion")
    return _judged(context, where, path, f"{path} is present on the minion")


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
    """Fetch a file of the file server or of the web into this host's cache."""
    where = source.FileSource(
        name,
        saltenv or context.saltenv,
        str(source_hash or ""),
        source_hash_name,
        truth(skip_verify),
    )
    try:
        source.expected_hash(context, where)
        known = context.call("cp.is_cached", name, saltenv) if name.startswith("salt://") else ""
        if context.test:
            if known:
                return done(f"File already cached: {name}")
            return would(f"File will be cached: {name}")
        if not _is_remote(name):
            return _local(context, where)
        found = source.fetch(context, where)
        if found is None:
            return failed(f"Failed to cache {name}, check minion log for more information")
        result = _judged(context, where, found, f"is cached to {found}")
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    changes: Dict[str, Any] = {"hash": {"old": None, "new": source.hash_file(found)}}
    return StateResult(result.result, {} if known else changes, result.comment)


@state()
def not_cached(context: Context, name: str, saltenv: Optional[str] = None) -> StateResult:
    """Remove a fetched file from this host's cache."""
    if not _is_remote(name):
        return done(f"File {Path(name).resolve()} is a local path, no action taken")
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
    return done(f"{place} was deleted", {"deleted": True})
