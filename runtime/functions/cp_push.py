"""cp.push and cp.push_dir: send files to this minion's folder on the master."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared.arguments import truth

#: Maximum number of files that one call sends.
_FILES = 10_000


def _checked(path: str) -> Path:
    """Return an absolute path without `..`.

    Raises:
        UsageError: it has another form.
    """
    found = Path(str(path))
    if not found.is_absolute() or ".." in found.parts:
        raise UsageError(f"{str(path)[:200]!r} must be an absolute path without '..'")
    return found


def _name(path: Path, upload_path: Optional[str]) -> str:
    """Return the path below this minion's folder on the master."""
    wanted = Path(str(upload_path)) if upload_path else path
    if ".." in wanted.parts:
        raise UsageError(f"upload_path {str(upload_path)[:200]!r} must not contain '..'")
    return "/".join(part for part in wanted.parts if part != "/")


def _send(context: Context, name: str, path: Path) -> None:
    try:
        context.host.push(name, path)
    except OSError as error:
        raise CommandExecutionError(f"cannot read {path}: {error.strerror}") from None


@function()
def push(
    context: Context,
    path: str,
    keep_symlinks: bool = False,
    upload_path: Optional[str] = None,
    remove_source: bool = False,
) -> bool:
    """Send a file to this minion's folder on the master, if its setting `file_recv` is on.

    Args:
        context: the call's context.
        path: absolute path of the file.
        keep_symlinks: accepted; the file that a link names is sent.
        upload_path: path below this minion's folder; the path of the file by default.
        remove_source: remove the file afterwards.

    Raises:
        CommandExecutionError: the file can't be read.
        NotAllowedError: the master accepts no files.
    """
    source = _checked(path)
    if not source.is_file():
        raise CommandExecutionError(f"{source} is no file")
    _send(context, _name(source, upload_path), source)
    if truth(remove_source):
        source.unlink()
    return True


@function()
def push_dir(
    context: Context, path: str, glob: Optional[str] = None, upload_path: Optional[str] = None
) -> bool:
    """Send the files of a folder, and of those below it, to this minion's folder on the master.

    Args:
        context: the call's context.
        path: absolute path of the folder, or of one file.
        glob: send only files whose name matches it.
        upload_path: folder below this minion's folder; the path of the folder by default.

    Raises:
        CommandExecutionError: there is no such folder, or it has too many files.
    """
    folder = _checked(path)
    if folder.is_file():
        return push(context, path, upload_path=upload_path)
    if not folder.is_dir():
        raise CommandExecutionError(f"{folder} is no folder")
    base = _name(folder, upload_path)
    for source, relative in _files(folder, glob):
        _send(context, f"{base}/{relative}" if base else relative, source)
    return True


def _files(folder: Path, glob: Optional[str]) -> List[Tuple[Path, str]]:
    found = []
    for where, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(where) / name
            if (glob is None or fnmatch(name, str(glob))) and path.is_file():
                found.append((path, path.relative_to(folder).as_posix()))
        if len(found) > _FILES:
            raise CommandExecutionError(f"{folder} has more than {_FILES} files")
    return found
