"""Read-only file.* functions: existence, attributes, contents, searches, path names."""

from __future__ import annotations

import glob
import os
import re
import stat
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from catena.modules.file import content, source
from catena.modules.file.edits import compiled, flags_of, holds
from catena.modules.shared import attributes
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

#: Maximum bytes of file.read, because the value is sent to the master.
READ_LIMIT = 16 * 1024 * 1024


def expand(path: str) -> Path:
    """Return *path* with ~ replaced by a home folder; an empty path matches no file."""
    if not path:
        return Path(os.devnull) / "empty"
    try:
        return Path(str(path)).expanduser()
    except RuntimeError:
        return Path(str(path))


def existing(path: str) -> Path:
    """Return *path*, which must exist.

    Raises:
        CommandExecutionError: it is not.
    """
    found = expand(path)
    if not os.path.lexists(found):
        raise CommandExecutionError(f"No such file or directory: {path}")
    return found


def text_of(path: str) -> str:
    """Return the text of a file.

    Raises:
        CommandExecutionError: it can't be read, or is larger than READ_LIMIT.
    """
    found = existing(path)
    if found.is_file() and found.stat().st_size > READ_LIMIT:
        raise CommandExecutionError(f"{path}: larger than {READ_LIMIT} bytes")
    return content.decode(content.read(found))


@function(reads=True)
def read(context: Context, path: str, binary: bool = False) -> Any:
    """Return the content of a file, as text or as bytes."""
    text = text_of(path)
    return content.encode(text) if binary else text.encode("utf-8", "replace").decode("utf-8")


@function(inline=True)
def file_exists(context: Context, path: str) -> bool:
    """Return whether *path* is a file."""
    return expand(path).is_file()


@function(inline=True)
def directory_exists(context: Context, path: str) -> bool:
    """Return whether *path* is a folder."""
    return expand(path).is_dir()


@function(inline=True)
def path_exists_glob(context: Context, path: str) -> bool:
    """Return whether anything matches the shell pattern *path*."""
    return bool(glob.glob(str(expand(path))))  # noqa: PTH207  # the pattern may be absolute


@function(inline=True)
def is_link(context: Context, path: str) -> bool:
    """Return whether *path* is a symbolic link."""
    return expand(path).is_symlink()


@function(inline=True)
def is_hardlink(context: Context, path: str) -> bool:
    """Return whether *path* is a file with several hard links."""
    found = existing(path).lstat()
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


@function(inline=True)
def readlink(context: Context, path: str, canonicalize: bool = False) -> str:
    """Return the target of the link *path*; with *canonicalize*, the real path."""
    found = existing(path)
    if not found.is_symlink():
        raise CommandExecutionError(f"A valid link was not specified: {path}")
    return str(found.resolve()) if canonicalize else os.readlink(found)  # noqa: PTH115


@function(name="access", inline=True)
def access_(context: Context, path: str, mode: str) -> bool:
    """Return whether *path* exists (f) or may be read (r), written (w) or executed (x)."""
    modes = {"f": os.F_OK, "r": os.R_OK, "w": os.W_OK, "x": os.X_OK}
    if mode not in modes:
        raise CommandExecutionError(f"Invalid mode {mode!r}: one of f, r, w, x")
    return os.access(expand(path), modes[mode])


@function(inline=True)
def stats(
    context: Context, path: str, hash_type: Optional[str] = None, follow_symlinks: bool = True
) -> Dict[str, Any]:
    """Return inode, uid, gid, user, group, times, size, mode, type and target of *path*."""
    found = existing(path)
    status = found.stat() if follow_symlinks and found.exists() else found.lstat()
    kinds = {
        stat.S_IFDIR: "dir",
        stat.S_IFCHR: "char",
        stat.S_IFBLK: "block",
        stat.S_IFREG: "file",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "pipe",
        stat.S_IFSOCK: "socket",
    }
    kind = kinds.get(stat.S_IFMT(status.st_mode), "")
    told: Dict[str, Any] = {
        "inode": status.st_ino,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "group": attributes.group_name(status.st_gid),
        "user": attributes.user_name(status.st_uid),
        "atime": status.st_atime,
        "mtime": status.st_mtime,
        "ctime": status.st_ctime,
        "size": status.st_size,
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "type": kind,
        "target": str(found.resolve()),
    }
    if hash_type:
        told["sum"] = source.hash_file(found, hash_type)
    return told


@function(inline=True)
def get_mode(context: Context, path: str, follow_symlinks: bool = True) -> str:
    """Return the permission bits of *path* as four octal digits."""
    found = existing(path)
    return attributes.mode_of(found, follow_symlinks and found.exists())


@function(inline=True)
def get_user(context: Context, path: str, follow_symlinks: bool = True) -> str:
    """Return the name of the owner of *path*."""
    return str(stats(context, path, follow_symlinks=follow_symlinks)["user"])


@function(inline=True)
def get_uid(context: Context, path: str, follow_symlinks: bool = True) -> int:
    """Return the uid of the owner of *path*."""
    return int(stats(context, path, follow_symlinks=follow_symlinks)["uid"])


@function(inline=True)
def get_group(context: Context, path: str, follow_symlinks: bool = True) -> str:
    """Return the name of the group of *path*."""
    return str(stats(context, path, follow_symlinks=follow_symlinks)["group"])


@function(inline=True)
def get_gid(context: Context, path: str, follow_symlinks: bool = True) -> int:
    """Return the gid of the group of *path*."""
    return int(stats(context, path, follow_symlinks=follow_symlinks)["gid"])


@function(inline=True)
def uid_to_user(context: Context, uid: Any) -> Any:
    """Return the name of user *uid*; the number if it has none, "" if *uid* is no number."""
    return _named(uid, attributes.user_name)


@function(inline=True)
def gid_to_group(context: Context, gid: Any) -> Any:
    """Return the name of group *gid*; the number if it has none, "" if *gid* is no number."""
    return _named(gid, attributes.group_name)


def _named(number: Any, find: Callable[[int], str]) -> Any:
    try:
        found = find(int(number))
    except (TypeError, ValueError):
        return ""
    return number if found == str(number) else found


@function(inline=True)
def user_to_uid(context: Context, user: str) -> Any:
    """Return the uid of *user*; "" if there is no such user."""
    return _numbered(user, attributes.uid_of)


@function(inline=True)
def group_to_gid(context: Context, group: str) -> Any:
    """Return the gid of *group*; "" if there is no such group."""
    return _numbered(group, attributes.gid_of)


def _numbered(name: Any, find: Callable[[Any], int]) -> Any:
    try:
        return find(name)
    except CommandExecutionError:
        return ""


@function(reads=True)
def get_hash(context: Context, path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """Return the hex digest of a file."""
    return source.hash_file(existing(path), form)


@function(reads=True)
def get_sum(context: Context, path: str, form: str = "sha256") -> str:
    """Return the hex digest of a file, or "File not found"."""
    found = expand(path)
    return source.hash_file(found, form) if found.is_file() else "File not found"


@function(reads=True)
def check_hash(context: Context, path: str, file_hash: str) -> bool:
    """Return whether a file has the hash *file_hash* (TYPE:HEX or HEX)."""
    wanted = source.expected_hash(context, source.FileSource("", source_hash=file_hash))
    return wanted is not None and source.hash_file(existing(path), wanted[0]) == wanted[1]


@function(reads=True)
def get_source_sum(
    context: Context, file_name: str = "", source_hash: str = "", saltenv: str = "base"
) -> Dict[str, str]:
    """Return {"hash_type", "hsum"} that *source_hash* gives for *file_name*."""
    wanted = source.expected_hash(context, source.FileSource(file_name, saltenv, source_hash))
    return {"hash_type": wanted[0], "hsum": wanted[1]} if wanted else {}


@function(reads=True)
def contains(context: Context, path: str, text: str) -> bool:
    """Return whether a line of a file contains *text* without its surrounding whitespace."""
    found = expand(path)
    if not found.is_file():
        return False
    return any(str(text).strip() in line for line in text_of(path).splitlines())


@function(reads=True)
def contains_regex(context: Context, path: str, regex: str, lchar: str = "") -> bool:
    """Return whether *regex* matches in a line of a file after stripping *lchar* from its left."""
    found = expand(path)
    if not found.is_file():
        return False
    expression = compiled(regex)
    lines = text_of(path).splitlines()
    return any(expression.search(line.lstrip(lchar) if lchar else line) for line in lines)


@function(reads=True)
def contains_glob(context: Context, path: str, glob_expr: str) -> bool:
    """Return whether a line of a file matches a shell pattern."""
    import fnmatch

    found = expand(path)
    return found.is_file() and any(
        fnmatch.fnmatch(line, glob_expr) for line in text_of(path).splitlines()
    )


@function(reads=True)
def search(
    context: Context,
    path: str,
    pattern: str,
    flags: Any = 8,
    ignore_if_missing: bool = False,
    multiline: bool = False,
) -> bool:
    """Return whether the regular expression *pattern* matches in a file.

    Args:
        context: the call's context.
        path: the file.
        pattern: the expression.
        flags: of Python's re: a number, or names such as IGNORECASE.
        ignore_if_missing: return False instead of an error if the file is missing.
        multiline: match ^, $ and . across lines.
    """
    if ignore_if_missing and not expand(path).exists():
        return False
    number = flags_of(flags) | (re.MULTILINE | re.DOTALL if multiline else 0)
    return compiled(pattern, number).search(text_of(path)) is not None


@function(reads=True)
def has_lines(context: Context, path: str, text: str) -> bool:
    """Return whether a file has the consecutive lines of *text*, ignoring whitespace."""
    return expand(path).is_file() and holds(text_of(path), str(text))


@function(reads=True)
def grep(context: Context, path: str, pattern: str, *opts: str) -> Dict[str, Any]:
    """Run grep on *path* (a shell pattern); return {pid, retcode, stdout, stderr}."""
    found = sorted(glob.glob(str(expand(path)))) or [str(expand(path))]  # noqa: PTH207
    words = ["grep", *[part for opt in opts for part in str(opt).split()], "-e", str(pattern)]
    return run(context, [*words, "--", *found], RunOptions(python_shell=False)).as_dict()


@function(name="dirname", inline=True)
def dirname(context: Context, path: str) -> str:
    """Return the folder part of *path*."""
    return os.path.dirname(path)  # noqa: PTH120  # Path would drop a trailing slash's meaning


@function(inline=True)
def basename(context: Context, path: str) -> str:
    """Return the last part of *path*."""
    return os.path.basename(path)  # noqa: PTH119  # as above


@function(inline=True)
def join(context: Context, *args: str) -> str:
    """Return path parts joined; an absolute part drops those before it."""
    return os.path.join(*(str(arg) for arg in args)) if args else ""  # noqa: PTH118  # texts


@function(inline=True)
def normpath(context: Context, path: str) -> str:
    """Return *path* without double slashes and dots."""
    return os.path.normpath(path)


@function(inline=True)
def readdir(context: Context, path: str) -> List[str]:
    """Return the names in a folder, with "." and ".." first."""
    found = expand(path)
    if not found.is_dir():
        raise CommandExecutionError(f"A valid directory was not specified: {path}")
    return [".", "..", *sorted(entry.name for entry in found.iterdir())]


@function(reads=True)
def statvfs(context: Context, path: str) -> Dict[str, int]:
    """Return sizes of the file system that holds *path*."""
    found = os.statvfs(existing(path))
    names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files")
    return {name: getattr(found, name) for name in (*names, "f_flag", "f_frsize", "f_namemax")}


@function(reads=True)
def pardir(context: Context) -> str:
    """Return the name of the parent folder, ".."."""
    return os.pardir


@function(reads=True)
def list_backups(context: Context, path: str, limit: Optional[int] = None) -> Dict[int, Any]:
    """Return the backups of *path* by `backup: minion`; the newest has the number 0."""
    found = expand(path)
    folder = context.host.cache_dir / "file_backup" / str(found.parent).lstrip("/")
    copies = list(folder.glob(f"{glob.escape(found.name)}_*")) if folder.is_dir() else []
    copies.sort(key=lambda copy: copy.name.rsplit("_", 1)[-1] + copy.name, reverse=True)
    copies.sort(key=lambda copy: copy.stat().st_ctime_ns, reverse=True)
    return {
        number: {
            "Start Time": copy.name[len(found.name) + 1 :],
            "Size": copy.stat().st_size,
            "Location": str(copy),
        }
        for number, copy in enumerate(copies[:limit])
    }
