"""locale.*: available locales and the configured one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

#: List of the locales that Debian's locale-gen generates, and of those that it knows.
_WANTED = Path("/etc/locale.gen")
_SUPPORTED = Path("/usr/share/i18n/SUPPORTED")
#: Definitions for localedef.
_DEFINITIONS = Path("/usr/share/i18n/locales")
#: Package of _DEFINITIONS and of localedef, by OS family.
_SOURCES = {"RedHat": "glibc-locale-source", "Suse": "glibc-i18ndata", "Debian": "locales"}
#: Seconds for the generation: it makes every locale of the list again.
_DEADLINE = 900
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]*\Z")
_FILES = ("/etc/locale.conf", "/etc/default/locale", "/etc/sysconfig/i18n")


def _normal(name: str) -> str:
    language, dot, charmap = (
        str(name).split()[0].partition(".") if str(name).split() else ("",) * 3
    )
    return f"{language}{dot}{charmap.lower().replace('-', '')}"


@function(reads=True)
def get_locale(context: Context) -> str:
    """Return LANG as this host's configuration sets it, or ""."""
    for name in _FILES:
        path = Path(name)
        if path.is_file():
            values: Dict[str, str] = {}
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                key, mark, value = line.strip().partition("=")
                if mark and not key.startswith("#"):
                    values[key] = value.strip("\"'")
            if "LANG" in values:
                return values["LANG"]
    return ""


@function(reads=True)
def list_avail(context: Context) -> List[str]:
    """Return the locales that programs may use."""
    return run(context, ["locale", "-a"], RunOptions(python_shell=False)).stdout.split()


@function(reads=True)
def avail(context: Context, locale: str) -> bool:
    """Return whether programs may use a locale; en_US.UTF-8 is en_US.utf8."""
    return _normal(locale) in {_normal(one) for one in list_avail(context)}


def checked(locale: Any) -> str:
    """Return *locale* if it can be the name of one.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(locale)):
        raise UsageError(f"{str(locale)[:80]!r} can't be the name of a locale")
    return str(locale)


@function()
def set_locale(context: Context, locale: str) -> bool:
    """Set LANG in the configuration of this host; return True.

    Raises:
        CommandExecutionError: a file can't be written.
        UsageError: *locale* can't be the name of one.
    """
    from catena.modules.file.content import decode, encode, read, write

    name = checked(locale)
    family = str(context.grains.get("os_family"))
    default = Path(_FILES[1] if family == "Debian" else _FILES[0])
    for path in [Path(one) for one in _FILES]:
        lines = decode(read(path)).splitlines() if path.is_file() else []
        held = [number for number, line in enumerate(lines) if line.strip().startswith("LANG=")]
        if not held and path != default:
            continue
        wanted = [line for number, line in enumerate(lines) if number not in held]
        wanted.insert(held[0] if held else len(wanted), f"LANG={name}")
        try:
            path.parent.mkdir(mode=0o755, exist_ok=True)
        except OSError as problem:
            raise CommandExecutionError(f"{path.parent}: {problem.strerror}") from problem
        if wanted != lines:
            write(path, encode("".join(f"{line}\n" for line in wanted)), "0644")
    return True


@function()
def gen_locale(context: Context, /, locale: str, verbose: bool = False, **kwargs: Any) -> Any:
    """Generate a locale; return True, or False if the system does not know it.

    Args:
        context: the host.
        locale: as in en_US.UTF-8, or in Debian also "en_IE.UTF-8 UTF-8".
        verbose: return {pid, retcode, stdout, stderr} instead.
        kwargs: accepted and ignored.

    Raises:
        CommandExecutionError: a package is missing; the message names it.
        UsageError: *locale* can't be the name of one.
    """
    from catena.modules.shared import programs

    name, _, charmap = str(locale).strip().partition(" ")
    checked(name)
    if charmap:
        checked(charmap.strip())
    debian = str(context.grains.get("os_family")) == "Debian"
    known, words = _by_list(context, name, charmap) if debian else _by_definition(context, name)
    if not known:
        return False
    package = _SOURCES.get(str(context.grains.get("os_family")), "locales")
    ran = programs.look(context, words, package, timeout=_DEADLINE)
    return ran.as_dict() if verbose else ran.retcode == 0


def _by_list(context: Context, name: str, charmap: str) -> Tuple[bool, List[str]]:
    """Add a locale to those to generate; return whether it is known, and the argv."""
    from catena.modules.file.content import decode, encode, read, write

    if not _SUPPORTED.is_file():
        raise CommandExecutionError(f"{_SUPPORTED} does not exist: install the package locales")
    rows = [line.split() for line in decode(read(_SUPPORTED)).splitlines()]
    found = [row for row in rows if row[:1] == [name] and charmap.strip() in ("", *row[1:])]
    if not found:
        return False, []
    entry = " ".join(found[0])
    lines = decode(read(_WANTED)).splitlines() if _WANTED.is_file() else []
    if entry not in [" ".join(line.split()) for line in lines]:
        off = [number for number, line in enumerate(lines) if _without_mark(line) == entry]
        if off:
            lines[off[0]] = entry
        else:
            lines.append(entry)
        write(_WANTED, encode("".join(f"{line}\n" for line in lines)), "0644")
    # Debian's locale-gen ignores arguments, Ubuntu's generates only these.
    ubuntu = str(context.grains.get("os")) == "Ubuntu"
    return True, ["locale-gen", *([name] if ubuntu else [])]


def _without_mark(line: str) -> str:
    """Return the entry of a line that is a comment; "" for any other line."""
    text = line.strip()
    return " ".join(text.lstrip("#").split()) if text.startswith("#") else ""


def _by_definition(context: Context, name: str) -> Tuple[bool, List[str]]:
    """Return whether localedef knows a locale, and its argv."""
    if not _DEFINITIONS.is_dir():
        package = _SOURCES.get(str(context.grains.get("os_family")), "locales")
        raise CommandExecutionError(
            f"{_DEFINITIONS} does not exist: install the package {package}"
        )
    base, _, modifier = name.partition("@")
    language, _, codeset = base.partition(".")
    source = f"{language}@{modifier}" if modifier else language
    known = (_DEFINITIONS / source).is_file()
    words = ["localedef", "--force", "-i", source, "-f", codeset or "UTF-8", "--quiet", name]
    return known, words
