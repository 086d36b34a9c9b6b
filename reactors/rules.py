"""The `reactor:` setting: event tag globs to SLS files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from catena.core.errors import ConfigError

#: Rules shipped with catena: (tag, file beside this module). `reactor_defaults: false` disables
#: them.
DEFAULTS: tuple[tuple[str, str], ...] = (("salt/minion/*/start", "resume_action_chain.sls"),)


@dataclass(frozen=True)
class Rule:
    """One entry of the setting `reactor`, or one rule shipped with catena."""

    #: Shell pattern on the whole tag; `*` crosses slashes, as in Salt.
    tag: str
    #: Paths or salt:// addresses.
    files: tuple[str, ...]
    #: Whether the rule is shipped with catena; its events do not wait for those of other rules.
    shipped: bool = False

    def matches(self, tag: str) -> bool:
        """Return whether the rule applies to events with *tag*."""
        return fnmatchcase(tag, self.tag)


def parse(setting: Iterable[Mapping[str, Any]], defaults: bool) -> tuple[Rule, ...]:
    """Return the rules of the setting `reactor`, after the shipped ones.

    Args:
        setting: the items of the setting.
        defaults: whether to use the shipped rules.

    Raises:
        ConfigError: an entry is not `glob: file` or `glob: [files]`.
    """
    folder = Path(__file__).parent
    used = DEFAULTS if defaults else ()
    rules = [Rule(tag, (str(folder / name),), shipped=True) for tag, name in used]
    for entry in setting:
        if len(entry) != 1:
            raise ConfigError(f"reactor: each item is one `glob: files`, not {sorted(entry)}")
        ((tag, files),) = entry.items()
        listed = [files] if isinstance(files, str) else files
        if not isinstance(listed, list) or not all(isinstance(file, str) for file in listed):
            raise ConfigError(f"reactor: {tag!r} needs a file or a list of files")
        rules.append(Rule(str(tag), tuple(listed)))
    return tuple(rules)
