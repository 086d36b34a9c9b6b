"""file.retention_schedule: remove old backups of a folder by rules."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.suggest import unknown
from catena.core.types import StateResult
from catena.modules.file.change import remove_path
from catena.states.answers import done, failed, would

Period = Tuple[int, ...]

#: By rule: function from a time to its period.
_PERIODS: Dict[str, Callable[[datetime], Period]] = {
    "first_of_hour": lambda when: (when.year, when.month, when.day, when.hour),
    "first_of_day": lambda when: (when.year, when.month, when.day),
    "first_of_week": lambda when: tuple(when.isocalendar())[:2],
    "first_of_month": lambda when: (when.year, when.month),
    "first_of_year": lambda when: (when.year,),
}
_RULES = ("most_recent", *_PERIODS)


def _limit(rule: str, count: Any) -> Optional[int]:
    """Return how many backups a rule keeps; None for all.

    Raises:
        UsageError: the rule is unknown, or its value is no number.
    """
    if rule not in _RULES:
        raise UsageError(unknown("rule", rule, _RULES))
    if count == "all":
        return None
    try:
        # As in Salt, one week more than given is kept.
        return int(count) + (rule == "first_of_week")
    except (TypeError, ValueError):
        raise UsageError(f"{rule}: {count!r} is neither a number nor 'all'") from None


def retained(times: Mapping[str, datetime], rules: Mapping[str, Any]) -> Set[str]:
    """Return the names to keep: each rule keeps the first backup of its newest periods.

    Args:
        times: when each backup was made.
        rules: number or "all" by rule.

    Raises:
        UsageError: a rule is unknown or malformed.
    """
    kept: Set[str] = set()
    newest = sorted(times, key=lambda name: times[name], reverse=True)
    for rule, count in rules.items():
        limit = _limit(rule, count)
        if rule == "most_recent":
            kept.update(newest[:limit])
            continue
        firsts: Dict[Period, str] = {}
        for name in newest:
            firsts[_PERIODS[rule](times[name])] = name
        kept.update(list(firsts.values())[:limit])
    return kept


def _times(folder: Path, pattern: Optional[str]) -> Tuple[Dict[str, datetime], List[str]]:
    """Return the time of each backup, from its name or last change, and the other names."""
    found: Dict[str, datetime] = {}
    ignored = [".", ".."]
    for path in folder.iterdir():
        try:
            if pattern:
                found[path.name] = datetime.strptime(path.name, pattern).replace(tzinfo=None)
            else:
                stamp = datetime.fromtimestamp(path.lstat().st_mtime, timezone.utc)
                found[path.name] = stamp.astimezone().replace(tzinfo=None)
        except ValueError:
            ignored.append(path.name)
    return found, sorted(ignored, reverse=True)


@state()
def retention_schedule(
    context: Context,
    name: str,
    retain: Mapping[str, Any],
    strptime_format: Optional[str] = None,
    timezone: Optional[str] = None,
) -> StateResult:
    """Remove backups of a folder that no rule keeps.

    Args:
        context: of the run.
        name: the folder.
        retain: how many to keep ("all": no limit) of most_recent, first_of_hour, first_of_day,
            first_of_week, first_of_month, first_of_year.
        strptime_format: format of the time in names; other names are ignored. Without it, the
            time of the last change counts.
        timezone: accepted without effect; times are local times of this host.
    """
    folder = Path(str(name)).expanduser()
    if not str(name).strip():
        return failed("Must provide name to file.retention_schedule")
    if not folder.is_dir():
        return failed("Name provided to file.retention must be a directory")
    try:
        times, ignored = _times(folder, strptime_format)
        kept = retained(times, retain)
        doomed = sorted(set(times) - kept, reverse=True)
        changes = {"retained": sorted(kept, reverse=True), "deleted": doomed, "ignored": ignored}
        if context.test:
            comment = f"{len(doomed)} backups would have been removed from {name}.\n"
            return would(comment, changes) if doomed else done(comment)
        for each in doomed:
            remove_path(Path(os.path.abspath(folder / each)))  # noqa: PTH100  # links stay links
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done(f"{len(doomed)} backups were removed from {name}.\n", changes if doomed else {})
