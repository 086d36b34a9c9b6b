"""What semanage, semodule and restorecon print, as records; and checks of what they are given."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass

#: Types of files by the letter that semanage reads.
FILE_TYPES: Mapping[str, str] = {
    "a": "all files",
    "f": "regular file",
    "d": "directory",
    "c": "character device",
    "b": "block device",
    "s": "socket",
    "l": "symbolic link",
    "p": "named pipe",
}
_BOOLEAN = re.compile(r"(\S+)\s+\((on|off)\s*,\s*(on|off)\)\s*(.*)")
_RULE = re.compile(rf"(.*\S)\s+({'|'.join(FILE_TYPES.values())})\s+(\S+)\s*\Z")
_PORTS = re.compile(r"(\w+)\s+(tcp|udp|dccp|sctp)\s+([\d, -]+)\Z")
_PORT = re.compile(r"(tcp|udp|dccp|sctp)/(\d+(?:-\d+)?)\Z")
_RELABEL = (
    re.compile(r"(?:Would relabel|Relabeled) (.*) from (\S+) to (\S+)\Z"),
    re.compile(r"restorecon reset (.*) context (\S+)->(\S+)\Z"),
)
_CONTEXT = ("sel_user", "sel_role", "sel_type", "sel_level")
_ON, _OFF = ("1", "on", "yes", "true"), ("0", "off", "no", "false")
#: Maximum number of a port.
_LAST_PORT = 65535


@dataclass(frozen=True)
class FileRule:
    """Which context files with a path have."""

    filespec: str
    #: A value of FILE_TYPES.
    filetype: str
    sel_user: str
    sel_role: str
    sel_type: str
    sel_level: str


def checked(text: Any, what: str) -> str:
    """Return a word for a program.

    Raises:
        UsageError: it is empty, has a line break, or would be read as an option.
    """
    word = str(text)
    if not word or word.startswith("-") or any(mark in word for mark in "\r\n\0"):
        raise UsageError(f"{what}: {word[:80]!r} makes no sense")
    return word


def file_type(letter: Any) -> str:
    """Return the type of files for a letter.

    Raises:
        UsageError: there is none.
    """
    found = FILE_TYPES.get(str(letter))
    if found is None:
        known = ", ".join(FILE_TYPES)
        raise UsageError(f"Invalid file type code {str(letter)[:80]!r}; expected one of: {known}")
    return found


def on_or_off(value: Any) -> Optional[str]:
    """Return "on" or "off" for the value of a boolean; None if it is neither."""
    text = str(value).lower()
    return "on" if text in _ON else "off" if text in _OFF else None


def booleans(text: str) -> Dict[str, Dict[str, str]]:
    """Return the booleans that semanage lists, by name."""
    found = {}
    for line in text.splitlines():
        row = _BOOLEAN.match(line.strip())
        if row:
            name, now, default, told = row.groups()
            found[name] = {"State": now, "Default": default, "Description": told}
    return found


def modules(text: str) -> Dict[str, Dict[str, Any]]:
    """Return the modules that `semodule --list-modules=full` lists, by name."""
    rows = [line.split() for line in text.splitlines()]
    return {
        row[1]: {"Enabled": "disabled" not in row[3:], "Version": None}
        for row in rows
        if len(row) >= 3
    }


def context_of(text: str) -> Dict[str, str]:
    """Return the parts of a context USER:ROLE:TYPE:LEVEL; all are empty for <<None>>."""
    words = text.split(":", 3)
    return dict(zip(_CONTEXT, words if len(words) > 1 else [""] * 4))


def file_rules(text: str) -> List[FileRule]:
    """Return the rules that `semanage fcontext --list` lists, in its order."""
    found = []
    for line in text.splitlines():
        row = _RULE.match(line)
        if row:
            context = {**dict.fromkeys(_CONTEXT, ""), **context_of(row.group(3))}
            found.append(FileRule(row.group(1), row.group(2), **context))
    return found


def port_rules(text: str) -> List[Tuple[str, str, List[str]]]:
    """Return type, protocol and ports of the rows that `semanage port --list` lists."""
    found = []
    for line in text.splitlines():
        row = _PORTS.match(line.strip())
        if row:
            ports = [one.strip() for one in row.group(3).split(",") if one.strip()]
            found.append((row.group(1), row.group(2), ports))
    return found


def port_of(name: Any, protocol: Any = None, port: Any = None) -> Tuple[str, str]:
    """Return protocol and port (or range) of a state, from its name or its arguments.

    Raises:
        UsageError: neither names a port.
    """
    for text in (str(name), f"{protocol}/{port}"):
        row = _PORT.match(text)
        if row and all(0 < int(one) <= _LAST_PORT for one in row.group(2).split("-")):
            return row.group(1), row.group(2)
    raise UsageError(
        f'Invalid name "{str(name)[:80]}" format and protocol and port not provided or invalid: '
        f'"{str(protocol)[:20]}" "{str(port)[:20]}".'
    )


def relabelled(text: str) -> Dict[str, Dict[str, Dict[str, str]]]:
    """Return what restorecon prints: the parts of the contexts that differ, by path."""
    found = {}
    for line in text.splitlines():
        for pattern in _RELABEL:
            row = pattern.match(line.strip())
            if row:
                old, new = context_of(row.group(2)), context_of(row.group(3))
                differ = [key for key in new if old.get(key) != new[key]]
                found[row.group(1)] = {
                    "old": {key: old.get(key, "") for key in differ},
                    "new": {key: new[key] for key in differ},
                }
    return found
