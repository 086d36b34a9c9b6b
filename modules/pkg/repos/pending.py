"""Repositories whose indexes could not be fetched, kept until a later run has fetched them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import FrozenSet, Optional, Set

from catena.core.context import Context
from catena.core.errors import LimitError
from catena.core.files import private_folder, read_limited, write_durable
from catena.core.logs import logger

log = logger(__name__)

_FILE = "pkg_refresh_due.json"
_LIMIT = 1024 * 1024
#: Key in the run's scratch data: the names, as the file has them.
_READ = "pkg.repos.pending"


def is_due(context: Context, repo: str) -> bool:
    """Return whether the indexes of *repo* have to be fetched again."""
    return _digest(repo) in _known(context)


def _digest(repo: str) -> str:
    # The name of a repository may be a line with a password.
    return sha256(repo.encode("utf-8", "surrogateescape")).hexdigest()


def _known(context: Context) -> FrozenSet[str]:
    """Return the noted repositories; the file is read once in a run."""
    if _READ not in context.scratch:
        context.scratch[_READ] = _read(_path(context))
    return frozenset(context.scratch[_READ])


def add(context: Context, repo: str) -> None:
    """Note that the indexes of *repo* have to be fetched."""
    _store(context, {*_known(context), _digest(repo)})


def remove(context: Context, repo: Optional[str]) -> None:
    """Note that the indexes of *repo* were fetched; None: those of all repositories."""
    _store(context, set() if repo is None else set(_known(context)) - {_digest(repo)})


def _path(context: Context) -> Path:
    return context.host.cache_dir / _FILE


def _read(path: Path) -> Set[str]:
    try:
        found = json.loads(read_limited(path, _LIMIT))
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, LimitError) as error:
        log.warning("%s can't be read and is ignored: %s", path, error)
        return set()
    return {str(name) for name in found} if isinstance(found, list) else set()


def _store(context: Context, wanted: Set[str]) -> None:
    if wanted == _known(context):
        return
    path = _path(context)
    if wanted:
        private_folder(path.parent)
        write_durable(path, json.dumps(sorted(wanted)).encode("utf-8"))
    else:
        path.unlink(missing_ok=True)
    context.scratch[_READ] = wanted
