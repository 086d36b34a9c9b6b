"""ini.*: options of INI files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.file import content
from catena.modules.shared.ini_text import IniText


def read(path: str, separator: str = "=") -> IniText:
    """Return the INI file at *path*; an empty one where there is none.

    Raises:
        UsageError: the path is relative.
        CommandExecutionError: the file can't be read.
    """
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise UsageError(f"{path} is not an absolute path")
    text = content.decode(content.read(file)) if file.exists() else ""
    return IniText(text, separator)


def write(path: str, ini: IniText) -> None:
    """Write *ini* to *path*; keep owner and mode of an existing file.

    Raises:
        CommandExecutionError: its folder is missing, or it can't be written.
    """
    file = Path(path).expanduser()
    if not file.parent.is_dir():
        raise CommandExecutionError(f"the folder {file.parent} does not exist")
    content.write(file, content.encode(ini.text()))


def text_of(value: Any) -> str:
    """Return the text of a value in an INI file."""
    return "" if value is None else str(value)


@function()
def set_option(
    context: Context,
    file_name: str,
    sections: Mapping[str, Any],
    separator: str = "=",
    encoding: Optional[str] = None,
) -> Dict[str, Any]:
    """Set options: {section: {option: value}}; a plain value belongs to no section.

    Returns:
        The changes: {section: {option: {"before", "after"}}}.
    """
    ini = read(file_name, separator)
    changes = apply(ini, sections)
    if changes:
        write(file_name, ini)
    return changes


def apply(ini: IniText, sections: Mapping[str, Any]) -> Dict[str, Any]:
    """Set options of *ini* and return the changes in the form of ini.set_option."""
    if not isinstance(sections, Mapping):
        raise UsageError(f"sections must be a mapping, not {sections!r}"[:200])
    changes: Dict[str, Any] = {}
    known = ini.sections()
    for section, wanted in sections.items():
        if not isinstance(wanted, Mapping):
            before = ini.get("", str(section))
            if before != text_of(wanted):
                ini.set("", str(section), text_of(wanted))
                changes[section] = {"before": before, "after": text_of(wanted)}
            continue
        own: Dict[str, Any] = {}
        for name, value in wanted.items():
            before = ini.get(section, str(name))
            if before != text_of(value):
                ini.set(section, str(name), text_of(value))
                own[str(name)] = {"before": before, "after": text_of(value)}
        if own and section not in known:
            after = {name: change["after"] for name, change in own.items()}
            changes[section] = {"before": None, "after": after}
        elif own:
            changes[section] = own
    return changes


@function(reads=True)
def get_option(
    context: Context,
    file_name: str,
    section: str,
    option: str,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> Optional[str]:
    """Return one option, or None."""
    return read(file_name, separator).get(section or "", option)


@function()
def remove_option(
    context: Context,
    file_name: str,
    section: str,
    option: str,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> Optional[str]:
    """Remove one option; return its value, or None if there was none."""
    ini = read(file_name, separator)
    value = ini.remove(section or "", option)
    if value is not None:
        write(file_name, ini)
    return value


@function(reads=True)
def get_section(
    context: Context,
    file_name: str,
    section: str,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> Dict[str, str]:
    """Return the options of a section."""
    return read(file_name, separator).options(section)


@function()
def remove_section(
    context: Context,
    file_name: str,
    section: str,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> Dict[str, str]:
    """Remove a section; return its options."""
    ini = read(file_name, separator)
    if section not in ini.sections():
        return {}
    options = ini.remove_section(section)
    write(file_name, ini)
    return options


@function(reads=True)
def get_ini(
    context: Context, file_name: str, separator: str = "=", encoding: Optional[str] = None
) -> Dict[str, Any]:
    """Return the whole file: {section: {option: value}}; options of no section stand beside."""
    ini = read(file_name, separator)
    found: Dict[str, Any] = dict(ini.options(""))
    names: List[str] = [name for name in ini.sections() if name]
    found.update({name: ini.options(name) for name in names})
    return found
