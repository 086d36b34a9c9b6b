"""Give pip requirements files: those of the master with what they include, and private ones."""

from __future__ import annotations

import posixpath
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from catena.core.addresses import has_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.shared.arguments import listed
from catena.modules.shared.private_files import private_folder

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
    files: Dict[str, bytes] = {}
    paths = [
        _path(context, one, cwd, saltenv, files, str(place)) for place, one in enumerate(names)
    ]
    if private:
        files["private.txt"] = "".join(f"{one}\n" for one in private).encode()
        paths.append("private.txt")
    with private_folder(files, user) as folder:
        yield [f"--requirement={folder / one}" for one in paths]


def _path(
    context: Context,
    name: str,
    cwd: Optional[str],
    saltenv: str,
    files: Dict[str, bytes],
    prefix: str,
) -> str:
    """Return the path of a requirements file; one of the master is added to *files*.

    The path of a file of the master is relative and begins with *prefix*.
    """
    if not name.startswith(_SALT):
        return _local(name, cwd)
    found = fetched(context, name, saltenv)
    files.update({f"{prefix}/{path}": data for path, data in found.items()})
    return f"{prefix}/{next(iter(found))}"


def _local(name: str, cwd: Optional[str]) -> str:
    if "://" in name:
        return name
    path = Path(cwd or "/", name)
    if not path.is_file():
        raise CommandExecutionError(f"pip requirements file '{path}' not found")
    return str(path)
