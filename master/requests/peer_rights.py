"""What minions may ask the master to call. Nothing, unless a setting names it.

`peer`, `peer_run` and `peer_wheel` map patterns of minion ids to patterns of functions. Patterns
are regular expressions that must match the whole id or name: in Salt they match its beginning, so
that a rule for `web1` also holds for `web10`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.errors import ConfigError
from catena.core.peer import PeerCall, PeerKind

#: Setting of each kind of call.
SETTINGS: Mapping[PeerKind, str] = {
    PeerKind.publish: "peer",
    PeerKind.runner: "peer_run",
    PeerKind.wheel: "peer_wheel",
}
#: Functions that no minion may publish: a published publish could go round for ever.
_NEVER = re.compile(r"publish\.|saltutil\.(?:runner|wheel)\Z")


@dataclass(frozen=True, slots=True)
class PeerRule:
    """Minions, and the functions that they may call."""

    minions: re.Pattern[str]
    functions: tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class PeerRules:
    """The rules of each kind of call."""

    rules: Mapping[PeerKind, Sequence[PeerRule]]


def parse(settings: MasterSettings) -> PeerRules:
    """Return the rules of the settings.

    Raises:
        ConfigError: a rule has another form, or a pattern is no regular expression.
    """
    return PeerRules(
        {kind: _parse(name, getattr(settings, name)) for kind, name in SETTINGS.items()}
    )


def _parse(setting: str, given: Mapping[str, Any]) -> tuple[PeerRule, ...]:
    found = []
    for minions, functions in given.items():
        listed = [functions] if isinstance(functions, str) else functions
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise ConfigError(f"{setting}: {minions}: must be a list of patterns of functions")
        patterns = tuple(_pattern(setting, one) for one in listed)
        found.append(PeerRule(_pattern(setting, str(minions)), patterns))
    return tuple(found)


def _pattern(setting: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(f"{setting}: {text!r} is no regular expression: {error}") from None


def refusal(rules: PeerRules, minion: str, call: PeerCall) -> str:
    """Return why *minion* may not make *call*; "" if it may.

    Args:
        rules: of the master's settings.
        minion: id of the connection's key, never one that a message names.
        call: what is asked for.
    """
    if call.kind is PeerKind.publish and _NEVER.match(call.fun):
        return f"{call.fun} can't be published by a minion"
    for rule in rules.rules[call.kind]:
        if rule.minions.fullmatch(minion) is None:
            continue
        if any(pattern.fullmatch(call.fun) for pattern in rule.functions):
            return ""
    return (
        f"{minion} may not call {call.kind.value} {call.fun[:80]}: the master's setting "
        f"{SETTINGS[call.kind]} does not allow it"
    )
