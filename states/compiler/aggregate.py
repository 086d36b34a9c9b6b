"""`aggregate`: one state does the work of several of its module (one install, many packages).

A group, as in Salt, is a set of states of one module that can join and do not need each other. A
state that needs one member needs the whole group, because any member may do the work. Unlike Salt,
a state's work is done by another one only if its own requisites are met and it has no conditions.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from catena.core.context import Context
from catena.core.custom_faults import error_line
from catena.core.frozen import replace
from catena.core.logs import logger
from catena.states.compiler.call import Callees
from catena.states.compiler.joining import Grouping, directly, widen
from catena.states.compiler.model import KEYWORDS, Low, Row
from catena.states.compiler.requisites import Plan

log = logger(__name__)

#: Name of a state module's joining function: (low chunk, chunks of its group, rows) -> chunk.
JOIN = "mod_aggregate"
#: Key in a low chunk that has joined others, or whose work is done by another one.
JOINED = "__agg__"
_CONDITIONS = ("onlyif", "unless", "creates")
_NOT_ARGUMENTS = KEYWORDS | {"state", "name", "fun", "order"}


class Joins:
    """Decide which states of a run join; extend the requisites of *plan* to whole groups.

    Args:
        context: its option `state_aggregate` is True, or a list of modules.
        plan: of the run.
        callees: the state functions; they tell which modules can join.
    """

    def __init__(self, context: Context, plan: Plan, callees: Callees) -> None:
        self._plan = plan
        self._callees = callees
        setting = context.opts.get("state_aggregate")
        lows = plan.lows
        some = setting or any("aggregate" in low.keywords for low in lows)
        able = [
            place
            for place, low in enumerate(lows if some else ())
            if _may_join(low, setting) and callees.get(low.state, JOIN) is not None
        ]
        self._groups = Grouping(plan, able).groups()
        #: Low chunks of groups by position; the modules mark them.
        self._chunks: Dict[int, Dict[str, Any]] = {}
        if self._groups:
            widen(plan, self._groups)

    def sequence(self) -> Sequence[int]:
        """Return the positions in run order, each after those that it needs."""
        return _behind_needs(self._plan) if self._groups else range(len(self._plan.lows))

    def low(
        self,
        context: Context,
        position: int,
        is_free: Callable[[int], bool],
        rows: Mapping[str, Row],
    ) -> Low:
        """Return the low state at *position* with the work that it does for its group.

        Args:
            context: of the run.
            position: of the state.
            is_free: returns whether the state at a position may run now, or has run.
            rows: of the states that ran, by key.
        """
        low = self._plan.lows[position]
        if position not in self._groups:
            return low
        chunk = self._chunk(position)
        if not chunk.get(JOINED):
            chunk[JOINED] = True
            members = self._groups[position]
            offered = [
                self._chunk(one)
                for one in members
                if one == position or (is_free(one) and _unconditional(self._plan.lows[one]))
            ]
            chunk = self._joined(context, chunk, offered, rows) or chunk
            self._chunks[position] = chunk
        args = {
            key: value
            for key, value in chunk.items()
            if key not in _NOT_ARGUMENTS and not key.startswith("__")
        }
        return replace(low, args=args)

    def _chunk(self, position: int) -> Dict[str, Any]:
        if position not in self._chunks:
            self._chunks[position] = self._plan.lows[position].as_dict()
        return self._chunks[position]

    def _joined(
        self,
        context: Context,
        own: Dict[str, Any],
        offered: List[Dict[str, Any]],
        rows: Mapping[str, Row],
    ) -> Optional[Dict[str, Any]]:
        module, id_ = own["state"], own["__id__"]
        callee = self._callees.get(module, JOIN)
        try:
            found = callee.call(context, own, offered, dict(rows)) if callee else None
        except Exception as error:  # a plug-in may raise anything; the state then runs alone
            log.debug("%s.%s failed", module, JOIN, exc_info=True)
            log.error("%s.%s failed, %s runs alone: %s", module, JOIN, id_, error_line(error))
            return None
        return dict(found) if isinstance(found, Mapping) else None


def _may_join(low: Low, setting: Any) -> bool:
    wanted = low.keywords.get("aggregate", setting)
    return wanted is True or (isinstance(wanted, (list, tuple)) and low.state in wanted)


def _unconditional(low: Low) -> bool:
    return not any(key in low.keywords for key in _CONDITIONS)


def _behind_needs(plan: Plan) -> List[int]:
    """Return all positions in their order, but move each after those that it needs."""
    result: List[int] = []
    seen: Set[int] = set()
    met: Set[int] = set()
    for start in range(len(plan.lows)):
        path = [(start, iter((start,)))]
        while path:
            owner, needs = path[-1]
            one = next(needs, None)
            if one is None:
                path.pop()
                if path:
                    result.append(owner)
            elif one not in seen:
                seen.add(one)
                path.append((one, directly(plan, one, met)))
    return result
