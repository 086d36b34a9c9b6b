"""Small records that all packages use."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Union

from catena.core.frozen import dataclass, field

#: Any value that JSON and MessagePack support.
JSON = Union[None, bool, int, float, str, List[Any], Dict[str, Any]]


@dataclass(frozen=True)
class SourceLine:
    """A place in a file that a person wrote."""

    #: Path or salt:// address, as the author knows it.
    file: str
    #: Line, counted from 1; 0 if only the file is known.
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class StateResult:
    """What one state function did, or would do in test mode."""

    #: True: as desired; False: failed; None: would change (test mode).
    result: Optional[bool]
    #: What changed, by name; empty if nothing did.
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    comment: str = ""
    #: Shown beside the result; they do not make it fail.
    warnings: tuple[str, ...] = ()
