"""Pillar, asked for and given."""

from __future__ import annotations

from typing import Any, Dict

from catena.core.frozen import dataclass, field


@dataclass(frozen=True)
class PillarRequest:
    """Compile my pillar. Whose it is comes from the connection, never from here."""

    saltenv: str = ""
    pillarenv: str = ""
    #: Merged over the result (Salt's pillar= on the command line).
    override: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PillarReply:
    """Pillar, or why there is none."""

    pillar: Dict[str, Any]
    #: One text per fault, naming file and line; not empty: the pillar must not be used.
    errors: tuple[str, ...] = ()
