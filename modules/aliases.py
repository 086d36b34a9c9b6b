"""aliases.*: addresses to which mail of local users goes (/etc/aliases)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.logs import logger
from catena.core.plugins import function
from catena.modules.shared.arguments import listed

LOG = logger(__name__)

_LINE = re.compile(r"\s*(?P<alias>\"[^\"]*\"|[^\s:#\"][^:#]*?)\s*:\s*(?P<target>.*)\Z", re.DOTALL)
#: A comment at the end of a line.
_REMARK = re.compile(r"\s+#.*\Z")


def _path(context: Context) -> Path:
    """Return the file of aliases (setting `aliases.file`)."""
    return Path(str(context.opts.get("aliases.file") or "/etc/aliases"))


def _entries(context: Context) -> List[List[str]]:
    """Return the lines of the file, those of one alias together.

    Raises:
        CommandExecutionError: it can't be read.
    """
    path = _path(context)
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    found: List[List[str]] = []
    for line in text.splitlines():
        # A line that begins with a space continues the one above.
        if line[:1] in (" ", "\t") and line.strip() and found and _alias_of(found[-1]):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _alias_of(entry: List[str]) -> str:
    match = _LINE.match(entry[0])
    return match["alias"].strip('"') if match else ""


def _target_of(entry: List[str]) -> str:
    match = _LINE.match(entry[0])
    parts = [match["target"] if match else "", *entry[1:]]
    return " ".join(_REMARK.sub("", f" {part}").strip() for part in parts).strip()


def _save(context: Context, entries: List[List[str]]) -> None:
    from catena.modules.file.content import encode, write
    from catena.modules.shared import programs

    text = "".join(f"{line}\n" for entry in entries for line in entry)
    write(_path(context), encode(text), "0644")
    if shutil.which("newaliases", path="/usr/sbin:/usr/bin"):
        ran = programs.look(context, ["newaliases"], "postfix")
        if ran.retcode:
            LOG.warning("newaliases failed with return code %d: %s", ran.retcode, ran.stderr)


def text_of(target: Any) -> str:
    """Return a target, or several, as the file holds them.

    Raises:
        UsageError: there is none, or one has several lines.
    """
    several = isinstance(target, (list, tuple))
    parts = [str(one).strip() for one in (listed(target) if several else [target or ""])]
    if not parts or not all(parts):
        raise UsageError("an alias needs a target: an address, or a list of addresses")
    if any(mark in part for part in parts for mark in "\r\n\0"):
        raise UsageError("the target of an alias must be one line")
    return ", ".join(parts)


def _checked(alias: Any) -> str:
    text = str(alias)
    if not text.strip() or any(mark in text for mark in ':#"\r\n\0') or text != text.strip():
        raise UsageError(f"{text[:80]!r} can't be an alias")
    return text


@function(reads=True)
def list_aliases(context: Context) -> Dict[str, str]:
    """Return all aliases: {alias: target}.

    Raises:
        CommandExecutionError: the file can't be read.
    """
    entries = _entries(context)
    return {_alias_of(entry): _target_of(entry) for entry in entries if _alias_of(entry)}


@function(reads=True)
def get_target(context: Context, alias: str) -> str:
    """Return the target of an alias, or ""."""
    return list_aliases(context).get(str(alias), "")


@function(reads=True)
def has_target(context: Context, alias: str, target: Any) -> bool:
    """Return whether an alias has this target, or these targets in this order."""
    wanted = [one.strip() for one in text_of(target).split(",")]
    return [one.strip() for one in get_target(context, alias).split(",")] == wanted


@function()
def set_target(context: Context, alias: str, target: Any) -> bool:
    """Set the target of an alias, or its targets (a list); return True.

    Raises:
        CommandExecutionError: the file can't be written.
        UsageError: the alias or a target makes no sense.
    """
    name, text = _checked(alias), text_of(target)
    if has_target(context, name, target):
        return True
    entries: List[List[str]] = []
    new: Optional[List[str]] = [f"{f'{chr(34)}{name}{chr(34)}' if ' ' in name else name}: {text}"]
    for entry in _entries(context):
        if _alias_of(entry) != name:
            entries.append(entry)
        elif new is not None:
            remark = _REMARK.search(entry[0])
            entries.append([f"{new[0]}{remark.group() if remark else ''}"])
            new = None
    _save(context, [*entries, *([new] if new is not None else [])])
    return True


@function()
def rm_alias(context: Context, alias: str) -> bool:
    """Remove an alias; return True.

    Raises:
        CommandExecutionError: the file can't be written.
    """
    entries = _entries(context)
    kept = [entry for entry in entries if _alias_of(entry) != str(alias)]
    if kept != entries:
        _save(context, kept)
    return True
