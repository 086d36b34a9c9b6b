"""acl.*: access control lists of files (POSIX ACLs)."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth

_PACKAGE = "acl"
_DEADLINE = 600
#: Maximum number of paths in one command line.
_PATHS = 500
_OCTAL = re.compile(r"\\([0-7]{3})")
_KINDS = {"u": "user", "g": "group", "o": "other", "m": "mask"}
_PERMS = re.compile(r"[rwxX-]{0,4}\Z|[0-7]\Z")
_FLAGS = (("suid", "s"), ("sgid", "s"), ("sticky", "t"))

Lists = Dict[str, Dict[str, Any]]


@dataclass(frozen=True)
class AclEntry:
    """Whom an entry is for."""

    #: user, group, other or mask.
    kind: str
    #: User or group; "" is the file's owner or group.
    name: str = ""
    default: bool = False

    def spec(self, perms: Optional[str] = None) -> str:
        """Return the entry as setfacl reads it; without *perms* to remove it."""
        text = f"{'d:' if self.default else ''}{self.kind[0]}:{self.name}"
        return text if perms is None else f"{text}:{perms}"


def entry_of(acl_type: Any, acl_name: Any = "") -> AclEntry:
    """Return the entry for acl_type (user, group, other, mask; d: or default:) and acl_name.

    Raises:
        UsageError: no such type, or the name can't be that of a user or group.
    """
    head, mark, rest = str(acl_type).partition(":")
    default = bool(mark) and head in ("d", "default")
    kind = rest if default else str(acl_type)
    full = _KINDS.get(kind, kind)
    name = str(acl_name or "")
    if full not in _KINDS.values():
        raise UsageError(f"acl_type: {str(acl_type)[:80]!r} is none of user, group, other, mask")
    if name.startswith("-") or any(mark in name for mark in ":,\r\n\0"):
        raise UsageError(f"acl_name: {name[:80]!r} is no user or group")
    return AclEntry(full, name, default)


def checked_perms(perms: Any) -> str:
    """Return permissions as setfacl reads them: letters of rwxX, or a digit.

    Raises:
        UsageError: they are neither.
    """
    text = str(perms)
    if not _PERMS.match(text):
        raise UsageError(f"perms: {text[:80]!r} is neither letters of rwxX nor a digit")
    return text or "-"


def octal_of(perms: str) -> int:
    """Return checked permissions as a number from 0 to 7."""
    if perms.isdigit():
        return int(perms)
    return sum({"r": 4, "w": 2, "x": 1, "X": 1}[one] for one in set(perms) - {"-"})


def _files(paths: Sequence[Any]) -> List[str]:
    if not paths:
        raise UsageError("You need to specify at least one file or directory to work with!")
    return [str(one) for one in paths]


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def parse(text: str) -> Lists:
    """Return what getfacl prints, by path, in Salt's form."""
    found: Lists = {}
    row: Dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            if key == "file":
                row = found[_unescaped(value)] = {"comment": {}, "user": [], "group": []}
                value = _unescaped(value)
            row["comment"][key] = value
            if key == "flags":
                row.update({name: True for (name, mark), one in zip(_FLAGS, value) if one == mark})
        elif line and row:
            _add(row, line.partition("\t")[0].strip())
    return found


def _add(row: Dict[str, Any], line: str) -> None:
    """Add an entry such as default:user:web:r-x to the row of a path."""
    words = line.split(":")
    lists = row
    if words[0] == "default":
        lists = row.setdefault("defaults", {})
        words = words[1:]
    if len(words) < 3:
        return
    kind, name, perms = words[0], _unescaped(words[1]), words[2][:3]
    owners = {"user": "owner", "group": "group"}
    if kind in owners:
        name = name or row["comment"].get(owners[kind], "")
    lists.setdefault(kind, []).append({name: _permissions(perms)})


def _permissions(perms: str) -> Dict[str, Any]:
    pairs = (("read", "r", 4), ("write", "w", 2), ("execute", "x", 1))
    return {
        "permissions": {name: mark in perms for name, mark, _ in pairs},
        "octal": sum(bit for _, mark, bit in pairs if mark in perms),
    }


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of getfacl.

    Raises:
        CommandExecutionError: it is not installed.
    """
    words = programs.need(context, ["getfacl", "--version"], _PACKAGE).split()
    return words[1] if len(words) > 1 else ""


@function(reads=True)
def getfacl(context: Context, *paths: str, recursive: Any = False) -> Lists:
    """Return the access control lists of files, by path.

    Args:
        context: the host.
        paths: of files and folders.
        recursive: also all that is below the folders.

    Raises:
        CommandExecutionError: getfacl is not installed, or a path can't be read.
        UsageError: no path.
    """
    words = ["getfacl", "--absolute-names", *(["--recursive", "--physical"] * truth(recursive))]
    return parse(
        programs.need(context, [*words, "--", *_files(paths)], _PACKAGE, timeout=_DEADLINE)
    )


def _change(context: Context, options: List[str], paths: Sequence[Any], recursive: Any) -> bool:
    files = _files(paths)
    walk = ["--recursive", "--physical"] if truth(recursive) else []
    for first in range(0, len(files), _PATHS):
        words = ["setfacl", *walk, *options, "--", *files[first : first + _PATHS]]
        programs.need(context, words, _PACKAGE, timeout=_DEADLINE)
    return True


@function()
def wipefacls(
    context: Context, *paths: str, recursive: Any = False, raise_err: Any = True
) -> bool:
    """Remove all entries but those of owner, group and others; return True.

    Raises:
        CommandExecutionError: setfacl is not installed, or failed.
        UsageError: no path.
    """
    return _change(context, ["--remove-all"], paths, recursive)


@function()
def modfacl(
    context: Context,
    acl_type: str,
    acl_name: str = "",
    perms: str = "",
    *paths: str,
    recursive: Any = False,
    raise_err: Any = True,
) -> bool:
    """Add or change an entry of files; return True.

    Args:
        context: the host.
        acl_type: user, group, other or mask; "default:" or "d:" before it for new files.
        acl_name: the user or group; "" for the owner.
        perms: letters of rwxX, or a digit.
        paths: of files and folders.
        recursive: also all that is below the folders.
        raise_err: as in Salt; a failure always raises an error here.

    Raises:
        CommandExecutionError: setfacl is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    spec = entry_of(acl_type, acl_name).spec(checked_perms(perms))
    return _change(context, ["--modify", spec], paths, recursive)


@function()
def delfacl(
    context: Context, acl_type: str, acl_name: str = "", *paths: str, recursive: Any = False
) -> bool:
    """Remove an entry of files; return True. See modfacl for the arguments.

    Raises:
        CommandExecutionError: setfacl is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    return _change(context, ["--remove", entry_of(acl_type, acl_name).spec()], paths, recursive)


def entries(row: Dict[str, Any], entry: AclEntry) -> List[Tuple[str, int]]:
    """Return name and permissions of the entries of a kind in a row of getfacl."""
    lists = row.get("defaults", {}) if entry.default else row
    return [
        (name, one["octal"]) for rule in lists.get(entry.kind, []) for name, one in rule.items()
    ]
