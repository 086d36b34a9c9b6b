"""The sentences with which a run is refused before anything happens.

The short phrases are Salt's where people's tools look for them; around them stands where the
fault is and what was probably meant.
"""

from __future__ import annotations

from itertools import islice
from typing import Iterable

from catena.core.errors import CatenaError, UsageError
from catena.core.suggest import nearest
from catena.core.types import SourceLine

#: Comparing names is slow: so many of them are looked at for "did you mean".
_NAMES_LOOKED_AT = 2000


class TopError(CatenaError):
    """A top file can't be used."""


class StateArgumentsError(UsageError):
    """A state has arguments that its function does not take, or lacks some that it needs."""


def at(place: SourceLine) -> str:
    """Return " (FILE:LINE)", or nothing for data that came from no file."""
    return f" ({place})" if place.file else ""


def reached_from(steps: Iterable[SourceLine]) -> str:
    """Return the lines of a message that say how its place was reached, nearest first."""
    return "".join(f"\n  reached from {step}" for step in steps)


def meant(name: str, candidates: Iterable[str]) -> str:
    """Return "; did you mean 'x'?", or nothing where no candidate is near."""
    near = nearest(name, islice(candidates, _NAMES_LOOKED_AT))
    return f"; did you mean {near!r}?" if near else ""


def can_not_extend(id_: str, env: str, sls: object, place: SourceLine, ids: Iterable[str]) -> str:
    """Return the text for a change to an id that no SLS of the run declares."""
    return (
        f"Cannot extend ID '{id_}' in '{env}:{sls}': no SLS file of this run has it"
        f"{meant(id_, ids)}{at(place)}"
    )
