"""Probable mistakes in a valid configuration: names, folders, expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Iterator, List, Mapping

from catena.core import ids
from catena.core.errors import CatenaError
from catena.core.patterns import lazy_pattern

#: Host names reserved for examples (RFC 2606), which never resolve to a real host.
_EXAMPLE_NAME = lazy_pattern(r"(?i)(.*\.)?example(\.(com|net|org))?\.?\Z")
#: Words that a template contains where its user has to fill in something.
_PLACEHOLDER = lazy_pattern(
    r"(?i)(<[^<>]*>|\{\{.*\}\}|@[a-z_]+@|change[-_ ]?me|x{3,}|todo|fixme)\Z"
)


def mistakes(settings: Any) -> List[str]:
    """Return why a daemon cannot run with *settings* (MasterSettings or MinionSettings)."""
    return list(_of_minion(settings) if hasattr(settings, "machine_id") else _of_master(settings))


def warnings(settings: Any) -> List[str]:
    """Return why settings are probably not as intended: they name files that do not exist."""
    found = [
        f"{name}: {env}: there is no folder {folder}"
        for name in ("file_roots", "pillar_roots")
        for env, folders in getattr(settings, name).items()
        for folder in folders
        if not Path(folder).is_dir()
    ]
    if hasattr(settings, "machine_id"):
        if not settings.master and settings.file_client == "remote":
            found.append("master is not set: only `catena call --local` works")
        return found
    return found + [
        f"reactor: {tag}: there is no file {file}"
        for tag, file in _reactor_files(settings.reactor)
        if file.startswith("/") and not Path(file).is_file()
    ]


def _of_minion(settings: Any) -> Iterator[str]:
    yield from _placeholders(settings, ("id", "master", "machine_id", "enrol_token"))
    if _EXAMPLE_NAME.match(settings.master):
        yield f"master: {settings.master} is an example name: set the address of your master"
    for name, check in (("id", ids.minion_id), ("machine_id", ids.machine_id)):
        value = getattr(settings, name)
        try:
            if value:
                check(value)
        except CatenaError as error:
            yield f"{name}: {error}"


def _placeholders(settings: Any, names: Iterable[str]) -> Iterator[str]:
    """Yield the settings that still contain a template's placeholder."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, str) and _PLACEHOLDER.match(value):
            yield f"{name}: {value!r} is a placeholder: fill in your own value"


def _of_master(settings: Any) -> Iterator[str]:
    yield from _placeholders(settings, ("interface", "database", "ssh_user"))
    from catena.core.target import parse
    from catena.reactors.rules import parse as parse_rules

    try:
        parse_rules(settings.reactor, False)
    except CatenaError as error:
        yield str(error)
    for name in settings.nodegroups:
        try:
            parse(str(name), "nodegroup", settings.nodegroups)
        except CatenaError as error:
            yield f"nodegroups: {name}: {error}"


def _reactor_files(setting: List[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    from catena.reactors.rules import parse

    try:
        rules = parse(setting, False)
    except CatenaError:
        return
    for rule in rules:
        for file in rule.files:
            yield rule.tag, file
