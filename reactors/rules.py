"""The `reactor:` setting: event tag globs to SLS files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from catena.core.errors import ConfigError

#: Shipped beside this module, and used unless `reactor_defaults: false`.
DEFAULTS: tuple[tuple[str, str], ...] = (("salt/minion/*/start", "resume_action_chain.sls"),)


@dataclass(frozen=True)
class Rule:
    """Which events one entry of the configuration is about."""

    #: Shell pattern on the whole tag; `*` crosses slashes, as in Salt.
    tag: str
    #: Paths or salt:// addresses.
    files: tuple[str, ...]
    #: Whether this is a shipped rule, which does not wait for events of other rules.
    ahead: bool = False

    def matches(self, tag: str) -> bool:
        """Return whether an event of *tag* is meant."""
        return fnmatchcase(tag, self.tag)


def parse(setting: Iterable[Mapping[str, Any]], defaults: bool) -> tuple[Rule, ...]:
    """Return the rules of the `reactor:` setting, the shipped ones first.

    Raises:
        ConfigError: an entry is not `glob: file` or `glob: [files]`.
    """
    folder = Path(__file__).parent
    shipped = DEFAULTS if defaults else ()
    rules = [Rule(tag, (str(folder / name),), ahead=True) for tag, name in shipped]
    for entry in setting:
        if len(entry) != 1:
            raise ConfigError(f"reactor: each item is one `glob: files`, not {sorted(entry)}")
        ((tag, files),) = entry.items()
        listed = [files] if isinstance(files, str) else files
        if not isinstance(listed, list) or not all(isinstance(file, str) for file in listed):
            raise ConfigError(f"reactor: {tag!r} needs a file or a list of files")
        rules.append(Rule(str(tag), tuple(listed)))
    return tuple(rules)
