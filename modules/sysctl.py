"""sysctl.*: parameters of the running kernel, and the file that keeps them between boots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function

_ROOT = Path("/proc/sys")
_SYSTEMD = Path("/run/systemd/system")
#: First lines of a new file of settings.
_HEAD = "#\n# Kernel sysctl configuration\n#\n"


def _path(name: str) -> Path:
    """Return the /proc path of a parameter; net/ipv4/conf/eth0.1 keeps the dots of names."""
    text = str(name)
    slashes, dots = text.find("/"), text.find(".")
    if slashes >= 0 and (dots < 0 or slashes < dots):
        parts = text.split("/")
    else:
        parts = [part.replace("/", ".") for part in text.split(".")]
    if not all(parts) or ".." in parts:
        raise UsageError(f"{name!r} is no setting of the kernel")
    return _ROOT.joinpath(*parts)


@function(reads=True)
def get(context: Context, name: str) -> str:
    """Return the value of a setting (kernel.ostype); a sentence where there is none.

    Raises:
        UsageError: *name* is no name of a setting.
    """
    path = _path(name)
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as problem:
        return f"sysctl: cannot stat {path}: {problem.strerror}"


@function(reads=True)
def show(context: Context, config_file: Any = False) -> Optional[Dict[str, str]]:
    """Return every setting that this user may read, or the settings of a file.

    Args:
        context: the host.
        config_file: path of a file of settings; one that does not exist has none.

    Returns:
        The settings; None if the file can't be read.
    """
    if config_file:
        try:
            return configured(Path(str(config_file)))
        except CommandExecutionError:
            return None
    found = {}
    for above, _, names in os.walk(_ROOT):
        for name in names:
            path = Path(above, name)
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # write-only, or of a device that was removed
            found[".".join(path.relative_to(_ROOT).parts)] = text.strip()
    return dict(sorted(found.items()))


def _lines(path: Path) -> List[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise CommandExecutionError(f"Could not read from file {path}: {problem.strerror}") from (
            problem
        )


def _setting(line: str) -> Optional[List[str]]:
    """Return name and value of a line; None for a comment."""
    name, mark, value = line.partition("=")
    if not mark or line.lstrip().startswith(("#", ";")):
        return None
    return [name.strip(), value.strip()]


def configured(path: Path) -> Dict[str, str]:
    """Return the settings of a file; of several lines for one name the last one counts.

    Raises:
        CommandExecutionError: it can't be read.
    """
    found = (_setting(line) for line in _lines(path))
    return {pair[0]: pair[1] for pair in found if pair is not None}


@function(inline=True)
def default_config(context: Context) -> str:
    """Return the file that keeps settings between boots."""
    return "/etc/sysctl.d/99-salt.conf" if _SYSTEMD.exists() else "/etc/sysctl.conf"


def text_of(value: Any) -> str:
    """Return a value as text.

    Raises:
        UsageError: it is no text and no number, or has several lines.
    """
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"a value must be a text or a number, not {type(value).__name__}")
    text = str(value).strip()
    if not text or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"{text[:80]!r} can't be the value of a setting")
    return text


def same(left: str, right: str) -> bool:
    """Return whether two values are equal; the kernel separates numbers by tabs."""
    return left.split() == right.split()


@function()
def assign(context: Context, name: str, value: Any) -> Dict[str, str]:
    """Set a setting of the running kernel; return {name: value} as the kernel shows it.

    Raises:
        CommandExecutionError: no such setting, or the kernel refuses the value.
        UsageError: *name* or *value* makes no sense.
    """
    path, text = _path(name), text_of(value)
    if not path.is_file():
        raise CommandExecutionError(f"sysctl {name} does not exist")
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as problem:
        raise CommandExecutionError(
            f"sysctl -w failed: setting {name} to {text}: {problem.strerror}"
        ) from problem
    return {str(name): get(context, name)}


@function()
def persist(context: Context, name: str, value: Any, config: Optional[str] = None) -> str:
    """Set a setting now and at every boot; return "Updated" or "Already set".

    Args:
        context: the host.
        name: as in net.ipv4.ip_forward.
        value: a number, or a text with numbers.
        config: file of settings; default: sysctl.default_config.

    Raises:
        CommandExecutionError: the file can't be written, no such setting, or the kernel refuses
            the value. The file is written first, because a module that is loaded later may bring
            the setting.
        UsageError: *name* or *value* makes no sense.
    """
    from catena.modules.file.content import encode, write

    text, path = text_of(value), Path(config or default_config(context))
    _path(name)
    if not path.is_absolute():
        raise UsageError(f"config: {str(path)[:80]!r} is no absolute path")
    lines = _lines(path)
    wanted = with_setting(lines, str(name), text)
    if wanted != lines:
        head = "" if path.exists() else _HEAD
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as problem:
            raise CommandExecutionError(
                f"Could not write to file {path}: {problem.strerror}"
            ) from problem
        write(path, encode(head + "".join(f"{line}\n" for line in wanted)), "0644")
    if wanted == lines and same(get(context, name), text):
        return "Already set"
    if not same(get(context, name), text):
        assign(context, name, value)
    return "Updated"


def with_setting(lines: List[str], name: str, value: str) -> List[str]:
    """Return the lines of a file with a setting; the lines of other settings stay."""
    found = False
    wanted = []
    for line in lines:
        pair = _setting(line)
        if pair is not None and pair[0] == name:
            found = True
            line = line if same(pair[1], value) else f"{name} = {value}"
        wanted.append(line)
    return wanted if found else [*wanted, f"{name} = {value}"]
