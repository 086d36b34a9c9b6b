"""Error messages with which a run is refused before anything happens.

The short phrases are Salt's because tools match them; file, line and the probably meant name are
added.
"""

from __future__ import annotations

from itertools import islice
from typing import Iterable

from catena.core.errors import CatenaError, UsageError
from catena.core.suggest import nearest
from catena.core.types import SourceLine

#: Maximum number of names that are compared for "did you mean", because this is slow.
_NAMES_LOOKED_AT = 2000


class TopError(CatenaError):
    """A top file can't be used."""


class StateArgumentsError(UsageError):
    """A state has arguments that its function does not accept, or lacks required ones."""


def at(place: SourceLine) -> str:
    """Return " (FILE:LINE)", or "" for data without a file."""
    return f" ({place})" if place.file else ""


def reached_from(steps: Iterable[SourceLine]) -> str:
    """Return the `include` entries that led to a file, as lines of a message, nearest first."""
    return "".join(f"\n  reached from {step}" for step in steps)


def meant(name: str, candidates: Iterable[str]) -> str:
    """Return "; did you mean 'x'?", or "" if no candidate is similar."""
    near = nearest(name, islice(candidates, _NAMES_LOOKED_AT))
    return f"; did you mean {near!r}?" if near else ""


def can_not_extend(id_: str, env: str, sls: object, place: SourceLine, ids: Iterable[str]) -> str:
    """Return the error for an `extend` of an id that no SLS file of the run declares."""
    return (
        f"Cannot extend ID '{id_}' in '{env}:{sls}': no SLS file of this run has it"
        f"{meant(id_, ids)}{at(place)}"
    )
