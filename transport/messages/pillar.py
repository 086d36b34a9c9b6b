"""Requests for pillar and their answers."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class PillarRequest:
    """Asks for this minion's pillar. The connection identifies the minion, never this message."""

    saltenv: str = ""
    pillarenv: str = ""
    #: Merged over the compiled pillar (Salt's pillar= on the command line).
    override: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PillarReply:
    """The pillar, or the errors that prevented it."""

    pillar: Dict[str, Any]
    #: One text per error, naming file and line. If it is not empty, the pillar must not be used.
    errors: tuple[str, ...] = ()
