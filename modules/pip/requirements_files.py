"""Give pip requirements files: those of the master with what they include, and private ones."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core.addresses import has_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.shared.arguments import listed
from catena.modules.shared.command.options import find_identity

_SALT = "salt://"
#: Lines that name another file: -r FILE, --requirement=FILE, -c FILE, --constraint FILE.
_INCLUDE = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(\S+)")
#: Maximum number of files of the master that one requirements file includes.
_FILES = 200


def fetched(context: Context, address: str, saltenv: str) -> Dict[str, bytes]:
    """Return a requirements file of the master and the files that it includes, by path.

    Args:
        context: the call's context.
        address: salt://PATH.
        saltenv: environment.

    Raises:
        CommandExecutionError: one of them does not exist, or there are too many.
    """
    path, query_mark, query = address[len(_SALT) :].partition("?saltenv=")
    environment = query if query_mark else saltenv
    todo: List[Tuple[str, str]] = [(posixpath.normpath(path.lstrip("/")), address)]
    found: Dict[str, bytes] = {}
    while todo:
        name, told = todo.pop()
        if name in found:
            continue
        outside = name.split("/")[0] in ("..", ".")
        local = None if outside else context.files.fetch(name, environment)
        if local is None:
            raise CommandExecutionError(f"pip requirements file '{told}' not found")
        if len(found) >= _FILES:
            raise CommandExecutionError(f"{address} includes more than {_FILES} files")
        found[name] = local.read_bytes()
        for line in found[name].decode("utf-8", errors="replace").splitlines():
            match = _INCLUDE.match(line)
            if match and "://" not in match[1] and not match[1].startswith("/"):
                nested = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[1]))
                todo.append((nested, f"{_SALT}{nested}"))
    return found


@contextmanager
def for_pip(
    context: Context,
    requirements: Any,
    private: Sequence[str],
    user: Optional[str],
    cwd: Optional[str],
    saltenv: str,
) -> Iterator[List[str]]:
    """Yield pip's words for requirements files; temporary files last as long as the block.

    Args:
        context: the call's context.
        requirements: paths and salt:// addresses: a list, or a text with commas.
        private: lines with credentials for one more file, which only *user* can read.
        user: who runs pip.
        cwd: folder of relative paths.
        saltenv: environment of salt:// addresses.

    Raises:
        CommandExecutionError: a file does not exist.
        UsageError: *requirements* has another type.
    """
    if requirements and not isinstance(requirements, (str, list, tuple)):
        raise UsageError("requirements must be a string or list")
    given = [str(one) for one in listed(requirements)]
    names = [one for one in given if not has_credentials(one)]
    private = [*private, *(f"--requirement {one}" for one in given if has_credentials(one))]
    if not private and not any(one.startswith(_SALT) for one in names):
        yield [f"--requirement={_local(one, cwd)}" for one in names]
        return
    folder = Path(tempfile.mkdtemp(prefix="catena-pip-"))
    try:
        words = [f"--requirement={one}" for one in _paths(context, names, cwd, saltenv, folder)]
        if private:
            _write(folder / "private.txt", "".join(f"{one}\n" for one in private).encode())
            words.append(f"--requirement={folder / 'private.txt'}")
        _give(folder, user)
        yield words
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _paths(
    context: Context, names: Sequence[str], cwd: Optional[str], saltenv: str, folder: Path
) -> Iterator[str]:
    """Yield the paths of requirements files; those of the master are copied into *folder*."""
    for number, one in enumerate(names):
        if one.startswith(_SALT):
            yield _stored(context, one, saltenv, folder / str(number))
        else:
            yield _local(one, cwd)


def _stored(context: Context, address: str, saltenv: str, folder: Path) -> str:
    """Write a requirements file of the master, and what it includes, into a folder."""
    files = fetched(context, address, saltenv)
    for name, data in files.items():
        _write(folder / name, data)
    return str(folder / next(iter(files)))


def _local(name: str, cwd: Optional[str]) -> str:
    if "://" in name:
        return name
    path = Path(cwd or "/", name)
    if not path.is_file():
        raise CommandExecutionError(f"pip requirements file '{path}' not found")
    return str(path)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _give(folder: Path, user: Optional[str]) -> None:
    """Make *user* the owner of everything in a folder that nobody else could enter so far."""
    identity = find_identity(user) if user else None
    if identity is None:
        return
    for above, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(os.path.join(above, name), identity.uid, identity.gid)  # noqa: PTH118
    os.chown(folder, identity.uid, identity.gid)
