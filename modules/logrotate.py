"""logrotate.*: settings of logrotate, in its configuration and the folders that it includes.

A line is changed in its place: comments, scripts and the order of a file stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.files import read_limited
from catena.core.frozen import dataclass
from catena.core.plugins import function

_CONFIG = "/etc/logrotate.conf"
_SCRIPTS = frozenset({"firstaction", "lastaction", "prerotate", "postrotate", "preremove"})
#: Maximum size of a file, in bytes, and maximum number of included files.
_LIMIT, _FILES = 1024 * 1024, 1000
#: Endings of files in an included folder that logrotate skips.
_SKIPPED = (".bak", ".cfsaved", ".disabled", ".dpkg-dist", ".dpkg-old", ".dpkg-new", ".rpmnew",
            ".rpmorig", ".rpmsave", ".swp", ",v", "~")  # fmt: skip


@dataclass(frozen=True)
class RotateLine:
    """One line of a file with a command."""

    #: Number of the line, from 0.
    line: int
    key: str
    value: Any


@dataclass(frozen=True)
class RotateBlock:
    """The lines of a file that belong to some logs."""

    names: Tuple[str, ...]
    settings: Tuple[RotateLine, ...]
    #: Number of the line with the closing brace.
    end: int


@dataclass(frozen=True)
class Parsed:
    """What one file says."""

    path: Path
    lines: Tuple[str, ...]
    settings: Tuple[RotateLine, ...]
    blocks: Tuple[RotateBlock, ...]


def value_of(words: List[str]) -> Any:
    """Return the value of a command: True without one, a number, or text."""
    if not words:
        return True
    return int(words[0]) if len(words) == 1 and words[0].isdigit() else " ".join(words)


class _Reader:
    """Reads a file line by line."""

    def __init__(self) -> None:
        self.settings: List[RotateLine] = []
        self.blocks: List[RotateBlock] = []
        self._names: List[str] = []
        self._inside: Optional[List[RotateLine]] = None
        self._script = False

    def take(self, number: int, line: str) -> None:
        text = line.strip()
        if self._script:
            self._script = text != "endscript"
        elif text and not text.startswith("#"):
            self._command(number, text)

    def _command(self, number: int, text: str) -> None:
        words = text.split()
        if self._inside is None and text.endswith("{"):
            self._names += text[:-1].split()
            self._inside = []
        elif self._inside is not None and text.startswith("}"):
            names = tuple(name.strip("\"'") for name in self._names)
            self.blocks.append(RotateBlock(names, tuple(self._inside), number))
            self._names, self._inside = [], None
        elif self._inside is None and len(words) == 1 and text[0] in "/~\"'":
            self._names.append(text)  # the brace is on a later line
        else:
            self._script = words[0] in _SCRIPTS
            if not self._script:
                rows = self.settings if self._inside is None else self._inside
                rows.append(RotateLine(number, words[0], value_of(words[1:])))


def parse(path: Path, text: str) -> Parsed:
    """Return what a file says.

    Raises:
        CommandExecutionError: a block or a script has no end.
    """
    reader, lines = _Reader(), text.splitlines()
    for number, line in enumerate(lines):
        reader.take(number, line)
    if reader._inside is not None or reader._script:
        raise CommandExecutionError(f"{path}: a block or a script has no end")
    return Parsed(path, tuple(lines), tuple(reader.settings), tuple(reader.blocks))


def _read(path: Path) -> Parsed:
    try:
        text = read_limited(path, _LIMIT).decode("utf-8", "surrogateescape")
    except (OSError, LimitError) as problem:
        raise CommandExecutionError(f"cannot read {path}: {problem}") from problem
    return parse(path, text)


def files(config: Any) -> List[Parsed]:
    """Return what the configuration says, and then each file that it includes.

    Raises:
        CommandExecutionError: a file can't be read.
        UsageError: *config* is no absolute path.
    """
    path = Path(str(config))
    if not path.is_absolute():
        raise UsageError(f"conf_file: {str(config)[:80]!r} is no absolute path")
    first = _read(path)
    found = [first]
    for one in first.settings:
        if one.key == "include":
            place = Path(str(one.value))
            inner = sorted(place.iterdir()) if place.is_dir() else [place]
            found += [
                _read(each)
                for each in inner
                if each.is_file() and not each.name.endswith(_SKIPPED)
            ]
        if len(found) > _FILES:
            raise CommandExecutionError(f"{config} includes more than {_FILES} files")
    return found


def block_of(parsed: List[Parsed], name: str) -> Optional[Tuple[Parsed, RotateBlock]]:
    """Return the block of a log, and its file; None if there is none."""
    for one in parsed:
        for block in one.blocks:
            if name in block.names:
                return one, block
    return None


@function(reads=True)
def show_conf(context: Context, conf_file: str = _CONFIG) -> Dict[str, Any]:
    """Return the settings by command, those of blocks by log, and which file has what.

    Raises:
        CommandExecutionError: a file can't be read.
        UsageError: *conf_file* is no absolute path.
    """
    found: Dict[str, Any] = {}
    included: Dict[str, List[str]] = {}
    for number, one in enumerate(files(conf_file)):
        rows: Dict[str, Any] = {setting.key: setting.value for setting in one.settings}
        for block in one.blocks:
            inner = {setting.key: setting.value for setting in block.settings}
            rows.update(dict.fromkeys(block.names, inner))
        found.update(rows)
        if number:
            included[one.path.name] = list(rows)
    return {**found, "include files": included} if included else found


@function(reads=True)
def get(context: Context, key: str, value: Optional[str] = None, conf_file: str = _CONFIG) -> Any:
    """Return the value of a command, of a block, or of a command in a block; False if unset.

    Args:
        context: the host.
        key: the command, or the log of a block.
        value: the command in the block.
        conf_file: path of the configuration.

    Raises:
        CommandExecutionError: a file can't be read.
        UsageError: *conf_file* is no absolute path.
    """
    found = show_conf(context, conf_file).get(str(key), False)
    if not value:
        return found
    return found.get(str(value), False) if isinstance(found, dict) else False


def _word(text: Any, what: str) -> str:
    word = str(text)
    if not word.strip() or any(mark in word for mark in "{}\r\n\0"):
        raise UsageError(f"{what}: {word[:80]!r} can't be in a line of logrotate")
    return word


def line_of(key: str, value: Any) -> str:
    """Return the line for a command; "" for the value False, which removes it."""
    return "" if value is False else key if value is True else f"{key} {_word(value, key)}"


def with_setting(
    lines: List[str], settings: Tuple[RotateLine, ...], key: str, value: Any, place: int
) -> List[str]:
    """Return the lines with a command; a new one is inserted before line *place*, indented."""
    text = line_of(key, value)
    there = [one.line for one in settings if one.key == key]
    inside = place and bool(settings)
    indent = "    " if place else ""
    if inside:
        first = lines[settings[0].line]
        indent = first[: len(first) - len(first.lstrip())]
    if not there:
        return [*lines[:place], *([indent + text] if text else []), *lines[place:]]
    # The last of several lines for a command is the one that counts.
    kept = [line for number, line in enumerate(lines) if number not in there[:-1]]
    at = there[-1] - len(there[:-1])
    old = kept[at]
    new = old[: len(old) - len(old.lstrip())] + text
    return [*kept[:at], *([new] if text else []), *kept[at + 1 :]]


@function(name="set")
def set_(
    context: Context, key: str, value: Any, setting: Any = None, conf_file: str = _CONFIG
) -> bool:
    """Set a command, or with *setting* a command in the block of a log; return True.

    Args:
        context: the host.
        key: the command, or the log of a block.
        value: the value (True: the command alone, False: remove it), or the command in the block.
        setting: the value of the command in the block.
        conf_file: path of the configuration; a block in an included file is changed there.

    Raises:
        CommandExecutionError: a file can't be read or written.
        UsageError: an argument makes no sense.
    """
    from catena.modules.file.content import encode, write

    parsed, name = files(conf_file), _word(key, "key")
    if setting is None:
        if block_of(parsed, name):
            raise UsageError(f"{name} is a block: give the command in it, and its setting")
        one = next(
            (one for one in parsed if any(row.key == name for row in one.settings)), parsed[0]
        )
        lines = with_setting(list(one.lines), one.settings, name, value, 0)
    else:
        found, command = block_of(parsed, name), _word(value, "value")
        if found is None:
            one = parsed[0]
            text = line_of(command, setting)
            lines = [*one.lines, f"{name} {{", *([f"    {text}"] if text else []), "}"]
        else:
            one, block = found
            lines = with_setting(list(one.lines), block.settings, command, setting, block.end)
    if lines != list(one.lines):
        write(one.path, encode("".join(f"{line}\n" for line in lines)))
    return True
