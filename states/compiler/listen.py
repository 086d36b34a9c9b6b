"""Find the states that run at the end of a run because of `listen`."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from catena.states.compiler.model import Low, Row
from catena.states.compiler.requisites import pairs

_ERROR = "Listen_Error"


def heard(lows: Sequence[Low], rows: Sequence[Optional[Row]]) -> Tuple[List[Low], List[Low]]:
    """Return the states that act, and a state for the row of each missing target.

    Args:
        lows: low states in run order, in which listeners act too.
        rows: by position; None where a state did not run.

    Returns:
        A state may occur several times. As in Salt, listen accepts neither globs nor `sls`
        (behaviour 58).
    """
    if not any("listen" in low.keywords or "listen_in" in low.keywords for low in lows):
        return [], []
    found = _Found(lows)
    calls: List[Low] = []
    faults: Dict[str, Low] = {}

    def changed(positions: Sequence[int]) -> bool:
        return any((rows[one] or {}).get("changes") for one in positions)

    def miss(low: Low, module: str, target: str) -> None:
        fault = _fault(low, module, target)
        faults.setdefault(fault.key, fault)

    for low in lows:
        for module, target in pairs(low, "listen"):
            sources = found.all(module, target)
            if not sources:
                miss(low, module, target)
            elif changed(sources):
                calls += [lows[one] for one in found.all(low.state, low.id)]
        for module, target in pairs(low, "listen_in"):
            if changed(found.all(low.state, low.id)):
                listening = found.all(module, target)
                calls += [lows[one] for one in listening]
                if not listening:
                    miss(low, module, target)
    return calls, list(faults.values())


def _fault(low: Low, module: str, target: str) -> Low:
    wanted = f"{module}: {target}" if module else target
    return Low(
        _ERROR,
        _ERROR,
        f"listen_{target}",
        f"listen_{module}",
        None,
        low.env,
        low.order,
        {"wanted": wanted},
        line=low.line,
    )


class _Found:
    """Positions of states by module and by id or name."""

    def __init__(self, lows: Sequence[Low]) -> None:
        self._positions: Dict[Tuple[str, str], List[int]] = {}
        for position, low in enumerate(lows):
            for key in _names(low):
                self._positions.setdefault(key, []).append(position)

    def all(self, module: str, target: str) -> Sequence[int]:
        return self._positions.get(("" if module == "id" else module, target), ())


def _names(low: Low) -> Iterator[Tuple[str, str]]:
    for module in (low.state, ""):
        for name in {low.id, low.name}:
            yield module, name
