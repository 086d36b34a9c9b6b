"""Small records that every room uses."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Union

from catena.core.frozen import dataclass, field

#: Any value that JSON and MessagePack can carry.
JSON = Union[None, bool, int, float, str, List[Any], Dict[str, Any]]


@dataclass(frozen=True)
class SourceLine:
    """A place in a file that a person wrote."""

    #: Path or salt:// address, as the person knows it.
    file: str
    #: Line, counted from 1; 0 where only the file is known.
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class StateResult:
    """What one state function did, or would do in test mode."""

    #: True: as it should be; False: failed; None: would change (test mode).
    result: Optional[bool]
    #: What changed, by name; empty when nothing did.
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    comment: str = ""
    #: Shown beside the result; does not make it fail.
    warnings: tuple[str, ...] = ()
