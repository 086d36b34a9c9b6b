"""Records of a test file: what is rendered or called, and what is expected of it."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple, Union

from catena.core.frozen import dataclass
from catena.core.types import SourceLine

#: Keys that say what a test does; a test has exactly one of them.
KINDS = ("sls", "state", "call", "grain")
#: Stands for an expectation that a test does not have; None is a value.
UNSET: Any = object()


@dataclass(frozen=True)
class StateExpectation:
    """A state that an SLS file must, or must not, have."""

    id: str
    #: `module.function`, or only the module; "" for any.
    function: str
    #: Argument -> (expected value, where it is written). Other arguments are not compared.
    arguments: Mapping[str, Tuple[Any, SourceLine]]
    absent: bool
    place: SourceLine


@dataclass(frozen=True)
class Expectations:
    """What a test expects; UNSET or empty means that it is not compared."""

    states: Tuple[StateExpectation, ...] = ()
    #: Whether the states must be all that there are.
    only: bool = False
    #: Whether the states must run in the order in which they are listed.
    in_order: bool = False
    count: Optional[int] = None
    #: Text within the error; None: no error may happen.
    error: Optional[str] = None
    value: Any = UNSET
    result: Any = UNSET
    changes: Any = UNSET
    #: Text within the comment.
    comment: str = ""


@dataclass(frozen=True)
class KitTest:
    """One test."""

    name: str
    #: One of KINDS.
    kind: str
    #: The SLS names, or the function or grain.
    target: Union[str, List[str]]
    #: Arguments of a function or state.
    args: Tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    #: Execution function -> the value that it returns in this test.
    answers: Mapping[str, Any]
    expected: Expectations
    place: SourceLine
    #: Key of an expectation -> where it is written.
    lines: Mapping[str, SourceLine]

    def line(self, key: str) -> SourceLine:
        """Return where an expectation is written, or the test."""
        return self.lines.get(key, self.place)


@dataclass(frozen=True)
class KitFile:
    """One test file."""

    path: str
    file_roots: Tuple[str, ...]
    pillar_roots: Tuple[str, ...]
    #: Settings of the minion.
    config: Mapping[str, Any]
    tests: Tuple[KitTest, ...]


@dataclass(frozen=True)
class Mismatch:
    """One expectation that was not met."""

    place: SourceLine
    text: str


@dataclass(frozen=True)
class KitOutcome:
    """The result of one test."""

    file: str
    test: KitTest
    failures: Tuple[Mismatch, ...]
    seconds: float
