"""ini.*: options and sections of INI files."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.ini import apply, read, text_of, write
from catena.modules.shared.arguments import truth
from catena.modules.shared.ini_text import IniText
from catena.states.answers import done, failed, would

#: Edits the text in memory; returns the changes, and one sentence per change for test mode.
Edit = Callable[[IniText], Tuple[Dict[str, Any], List[str]]]


def _edited(context: Context, name: str, separator: str, edit: Edit) -> StateResult:
    """Apply *edit* to the file *name*, or in test mode report what it would change."""
    try:
        ini = read(name, separator)
        changes, sentences = edit(ini)
        if not changes:
            return done("No anomaly detected")
        if context.test:
            # As in Salt, test mode reports no changes here (behaviour 48).
            return would("".join(f"{sentence}\n" for sentence in sentences))
        write(name, ini)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done("Changes take effect", changes)


def _where(section: str) -> str:
    return f" in section {section}" if section else ""


def _pairs(sections: Any) -> List[Tuple[str, List[str]]]:
    """Return (section, option names) pairs of `sections`; plain names belong to no section.

    Raises:
        UsageError: *sections* is neither a mapping nor a list.
    """
    if isinstance(sections, Mapping):
        found = []
        for section, names in sections.items():
            if isinstance(names, (list, tuple, Mapping)):
                found.append((str(section), [str(name) for name in names]))
            else:
                found.append(("", [str(section)]))
        return found
    if isinstance(sections, (list, tuple)):
        return [("", [str(name) for name in sections])]
    raise UsageError("sections must be a mapping or a list")


@state()
def options_present(
    context: Context,
    name: str,
    sections: Optional[Mapping[str, Any]] = None,
    separator: str = "=",
    strict: bool = False,
    encoding: Optional[str] = None,
) -> StateResult:
    """Set options of an INI file, which is created if it is missing.

    Args:
        context: of the run.
        name: absolute path.
        sections: {section: {option: value}}; a plain value belongs to no section.
        separator: text between an option and its value.
        strict: remove the other options of these sections.
        encoding: accepted without effect; the file is UTF-8.
    """

    def edit(ini: IniText) -> Tuple[Dict[str, Any], List[str]]:
        wanted = sections or {}
        removed = _stripped(ini, wanted) if truth(strict) else []
        changes: Dict[str, Any] = {}
        for section, key, value in removed:
            own = changes.setdefault(section, {}) if section and key else changes
            own[key or section] = {"before": value, "after": None}
        set_here = apply(ini, wanted)
        for section, change in set_here.items():
            changes.setdefault(section, {}).update(change)
        sentences = _sentences(wanted, set_here)
        sentences += [
            f"Deleted key {key}{_where(section)}." if key else f"Deleted section {section}."
            for section, key, _ in removed
        ]
        return changes, sentences

    return _edited(context, name, separator, edit)


def _sentences(wanted: Mapping[str, Any], set_here: Mapping[str, Any]) -> List[str]:
    """Return a sentence per option to set, in the order of the SLS file."""
    found = []
    for section, options in wanted.items():
        if isinstance(options, Mapping):
            changed = _changed(set_here.get(section))
            found += [f"Changed key {key}{_where(section)}." for key in options if key in changed]
    plain = (key for key, value in wanted.items() if not isinstance(value, Mapping))
    return found + [f"Changed key {key}." for key in plain if key in set_here]


def _changed(change: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the changed options of a section, which may be a new one."""
    if not change:
        return {}
    after = change.get("after")
    return after if change.get("before", "") is None and isinstance(after, Mapping) else change


def _stripped(ini: IniText, wanted: Mapping[str, Any]) -> List[Tuple[str, str, Any]]:
    """Remove the options and sections that `strict` forbids.

    Returns:
        (section, option, value) for an option, (section, "", its options) for a whole section.
    """
    gone: List[Tuple[str, str, Any]] = []
    for section in ini.sections():
        options = wanted.get(section) if section else wanted
        if not isinstance(options, Mapping):
            gone.append((section, "", ini.remove_section(section)))
            continue
        kept = {str(name) for name in options}
        surplus = [name for name in ini.options(section) if name not in kept]
        gone += [(section, name, ini.remove(section, name)) for name in surplus]
    return gone


@state()
def options_absent(
    context: Context,
    name: str,
    sections: Any = None,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> StateResult:
    """Remove options of an INI file: {section: [option, …]}, or a list for those of no section."""

    def edit(ini: IniText) -> Tuple[Dict[str, Any], List[str]]:
        changes: Dict[str, Any] = {}
        sentences = []
        for section, names in _pairs(sections or {}):
            for key in names:
                value = ini.remove(section, key)
                if value is None:
                    continue
                (changes.setdefault(section, {}) if section else changes)[key] = value
                sentences.append(f"Deleted key {key}{_where(section)}.")
        return changes, sentences

    return _edited(context, name, separator, edit)


@state()
def sections_present(
    context: Context,
    name: str,
    sections: Any = None,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> StateResult:
    """Add sections that are missing: a list of names, or {section: {option: value}}."""

    def edit(ini: IniText) -> Tuple[Dict[str, Any], List[str]]:
        changes: Dict[str, Any] = {}
        sentences = []
        for section in sections or ():
            if section in ini.sections():
                continue
            ini.add_section(str(section))
            options = sections[section] if isinstance(sections, Mapping) else None
            given = options if isinstance(options, Mapping) else {}
            for key, value in given.items():
                ini.set(str(section), str(key), text_of(value))
            changes[section] = {"before": None, "after": ini.options(str(section))}
            sentences.append(f"Created new section {section}.")
        return changes, sentences

    return _edited(context, name, separator, edit)


@state()
def sections_absent(
    context: Context,
    name: str,
    sections: Any = None,
    separator: str = "=",
    encoding: Optional[str] = None,
) -> StateResult:
    """Remove whole sections of an INI file."""

    def edit(ini: IniText) -> Tuple[Dict[str, Any], List[str]]:
        changes: Dict[str, Any] = {}
        sentences = []
        for section in [sections] if isinstance(sections, str) else sections or ():
            if section not in ini.sections():
                continue
            changes[section] = ini.remove_section(str(section))
            sentences.append(f"Deleted section {section}.")
        return changes, sentences

    return _edited(context, name, separator, edit)
