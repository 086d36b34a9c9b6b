"""Probable mistakes in a valid configuration: names, folders, expressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, List, Mapping

from catena.core import ids
from catena.core.config import placeholders
from catena.core.errors import CatenaError


def mistakes(settings: Any) -> List[str]:
    """Return why a daemon cannot run with *settings* (MasterSettings or MinionSettings)."""
    return list(_of_minion(settings) if hasattr(settings, "machine_id") else _of_master(settings))


def warnings(settings: Any) -> List[str]:
    """Return why settings are probably not as intended: missing files, example names."""
    found = list(placeholders.doubtful(settings))
    found += [
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
    yield from placeholders.unusable(settings)
    for name, check in (("id", ids.minion_id), ("machine_id", ids.machine_id)):
        value = getattr(settings, name)
        try:
            if value:
                check(value)
        except CatenaError as error:
            yield f"{name}: {error}"


def _of_master(settings: Any) -> Iterator[str]:
    yield from placeholders.unusable(settings)
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
