"""Notes which functions templates call in test mode, because no guard can prevent these calls.

A template is rendered in test mode too, and its text may depend on any function that it calls.
Functions that are marked as reading change nothing and are not noted. Nothing is noted outside
`noting_calls`, which only runs and states in test mode enter.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Dict, Iterator, Optional, Tuple

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class TemplateCall:
    """Calls of one function while one file was rendered."""

    function: str
    #: Name of the file: its address, such as salt://web/init.sls.
    file: str
    number: int = 1


class CallNotes:
    """Counts calls by function and file."""

    def __init__(self) -> None:
        self._numbers: Dict[Tuple[str, str], int] = {}

    def add(self, call: TemplateCall) -> None:
        """Count *call*."""
        key = (call.function, call.file)
        self._numbers[key] = self._numbers.get(key, 0) + call.number

    def calls(self) -> Tuple[TemplateCall, ...]:
        """Return the counted calls in the order in which they were first made."""
        return tuple(TemplateCall(*key, number) for key, number in self._numbers.items())


_NOTES: ContextVar[Optional[CallNotes]] = ContextVar("catena_template_calls", default=None)


def is_noting() -> bool:
    """Return whether calls of templates are noted here."""
    return _NOTES.get() is not None


def note(call: TemplateCall) -> None:
    """Count *call* in the innermost `noting_calls`, if there is one."""
    notes = _NOTES.get()
    if notes is not None:
        notes.add(call)


@contextmanager
def noting_calls() -> Iterator[CallNotes]:
    """Count the calls of templates within the block."""
    notes = CallNotes()
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


@contextmanager
def calling(function: str, file: str) -> Iterator[None]:
    """Count one call, whose function runs within the block; calls by that function are part of it.

    Args:
        function: name of the function.
        file: name of the file that is rendered.
    """
    note(TemplateCall(function, file))
    token = _NOTES.set(None)
    try:
        yield
    finally:
        _NOTES.reset(token)
