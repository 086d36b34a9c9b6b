"""Call one state function: check its arguments, evaluate its conditions, make its row."""

from __future__ import annotations

import math
import os
import time
from contextlib import contextmanager
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from catena.core.context import Context
from catena.core.custom_faults import error_line
from catena.core.errors import UsageError
from catena.core.frozen import dataclass, replace
from catena.core.logs import logger
from catena.core.plugins import BUILT_IN, LOW, LookAhead, Plugin, Registry
from catena.core.suggest import nearest
from catena.core.template_calls import noting_calls
from catena.core.types import StateResult
from catena.core.unguarded import Unguarded, add_to
from catena.modules.shared.arguments import truth
from catena.states.compiler import conditions
from catena.states.compiler.faults import at, meant
from catena.states.compiler.model import KEYWORDS, REQUISITES, Low, Row
from catena.states.compiler.slips import candidates, slips

log = logger(__name__)

RETRY_ATTEMPTS = 2
RETRY_INTERVAL = 30.0
#: Seconds between checks for a cancellation during the wait before a retry.
_RETRY_STEP = 0.2


@dataclass(frozen=True)
class Callee:
    """A state function and the arguments that it accepts."""

    call: Callable[..., StateResult]
    #: Names of its arguments, except context and name.
    accepts: FrozenSet[str]
    required: FrozenSet[str]
    #: The function accepts any other argument (`**kwargs`).
    open: bool
    #: Keywords of the compiler that it receives as arguments.
    wants: Tuple[str, ...]
    #: The function that prepares several states at once, from its mark.
    ahead: Optional[LookAhead] = None
    #: Where its plug-in comes from: built in, or a custom file.
    origin: str = BUILT_IN
    #: Returns the names of arguments that its code reads from `**kwargs`, as far as known.
    reads: Callable[[], FrozenSet[str]] = frozenset


def _callee(plugin: Plugin) -> Callee:
    accepts, required, open_ = set(), set(), False
    for position, one in enumerate(plugin.parameters()):
        if one.many:
            open_ = open_ or one.by_name
        elif position:
            accepts.add(one.name)
            if one.is_required:
                required.add(one.name)
    wants = tuple(sorted({*getattr(plugin.mark, "wants", ()), *(accepts & KEYWORDS)}))
    ahead = getattr(plugin.mark, "ahead", None)
    reads = getattr(plugin.mark, "reads", frozenset)
    return Callee(
        plugin.call,
        frozenset(accepts),
        frozenset(required),
        open_,
        wants,
        ahead,
        plugin.origin,
        reads,
    )


class Callees:
    """Caches the state functions of a run."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: Dict[Tuple[str, str], Optional[Callee]] = {}

    def get(self, state: str, fun: str) -> Optional[Callee]:
        """Return a state function, or None if it does not exist."""
        key = (state, fun)
        if key not in self._found:
            name = f"{state}.{fun}"
            plugin = self._registry[name] if name in self._registry else None
            self._found[key] = _callee(plugin) if plugin else None
        return self._found[key]

    def forget(self) -> None:
        """Clear the cache."""
        self._found.clear()

    def refusal(self, state: str) -> str:
        """Return why an existing module provides no states, or ""."""
        return self._registry.refusal(state)

    def hint(self, state: str, fun: str) -> str:
        """Return "; did you mean …?" for a function that is not there."""
        names = list(self._registry.module(state))
        near = nearest(f"{state}.{fun}", names) if names else None
        if near:
            return f"; did you mean {near!r}?"
        if names:
            return ""
        module = nearest(state, (one for one in self._registry.prefixes() if one != state))
        inside = list(self._registry.module(module)) if module else ()
        near = nearest(f"{module}.{fun}", inside) or module
        return f"; did you mean {near!r}?" if near else ""


def argument_faults(callees: Callees, lows: Sequence[Low]) -> Iterator[str]:
    """Yield one error per state whose arguments don't fit its function."""
    for low in lows:
        callee = callees.get(low.state, low.fun)
        if callee is not None:
            yield from _argument_faults(callee, low)


def _argument_faults(callee: Callee, low: Low) -> Iterator[str]:
    if not callee.open:
        for key in low.args:
            if key not in callee.accepts:
                hint = meant(key, candidates(callee.accepts))
                yield (
                    f"'{key}' is an invalid keyword argument for '{low.state}.{low.fun}' in "
                    f"state '{low.id}' of SLS '{low.sls}'{hint}{at(low.line_of(key))}"
                )


@dataclass(frozen=True)
class Attempt:
    """How one call of a state differs from its declaration."""

    #: Arguments added to the state's own (mod_watch: sfun, __reqs__).
    extra: Optional[Mapping[str, Any]] = None
    #: The call is a trial for prereq, without retries.
    trial: bool = False


#: Keyword with which a state receives the low states that it requires, as dicts.
REQUIRED = "__required__"
_PLAIN = Attempt()


class StateCaller:
    """Calls state functions; does not evaluate requisites.

    Args:
        callees: provides the functions.
        cancelled: returns True to end the wait between retries.
    """

    def __init__(self, callees: Callees, cancelled: Callable[[], bool]) -> None:
        self._callees = callees
        self._cancelled = cancelled

    def row(self, context: Context, low: Low, attempt: Attempt = _PLAIN) -> Row:
        """Return the row of *low*: skipped by its conditions, or called, with retries."""
        callee = self._callees.get(low.state, low.fun)
        if callee is None:
            return self._unknown(low)
        if callee.required:
            missing = callee.required - {*low.args, *low.keywords, *(attempt.extra or ())}
            if missing:
                return _incomplete(low, sorted(missing))
        if "umask" not in low.keywords:
            return self._tried(context, low, callee, attempt)
        try:
            from catena.modules.shared.command.options import parse_umask

            mask = parse_umask(low.keywords["umask"])
        except UsageError as error:
            return make_row(low, False, f"{error}{at(low.line_of('umask'))}\n")
        with _umask(mask):
            return self._tried(context, low, callee, attempt)

    def _tried(self, context: Context, low: Low, callee: Callee, attempt: Attempt) -> Row:
        """Return the row of *low* after as many calls as its `retry` allows."""
        row = self._once(context, low, callee, attempt)
        retry = low.keywords.get("retry")
        if not retry or attempt.trial:
            return row
        return self._retried(context, low, callee, attempt, row)

    def _once(self, context: Context, low: Low, callee: Callee, attempt: Attempt) -> Row:
        if not context.test and "test" in low.keywords and "test" not in callee.wants:
            # A state may enter test mode by itself, but can't leave the run's test mode.
            context = context.with_(test=truth(low.keywords["test"]))
        if not context.test:
            return self._asked(context, low, callee, attempt)
        with noting_calls() as notes:
            row = self._asked(context, low, callee, attempt)
        add_to(row, _outside_guard(context, low, callee))
        add_to(row, Unguarded(calls=notes.calls()))
        return row

    def _asked(self, context: Context, low: Low, callee: Callee, attempt: Attempt) -> Row:
        """Return the row of one call, or of the conditions that skip it."""
        if low.keywords:
            try:
                skipped = conditions.skip_comment(context, low)
            except Exception as error:  # the function of a condition may raise anything
                log.debug("a condition of %s failed", low.key, exc_info=True)
                fault = f"An exception occurred in this state: {error_line(error)}{at(low.line)}"
                return make_row(low, False, fault)
            if skipped is not None:
                row = make_row(low, True, skipped)
                row["skip_watch"] = True
                return self._checked(context, low, callee, row)
        row = _answer(context, low, callee, attempt.extra)
        return self._checked(context, low, callee, row)

    def _checked(self, context: Context, low: Low, callee: Callee, row: Row) -> Row:
        """Let check_cmd decide the result, also in trials and for states without changes."""
        if "check_cmd" in low.keywords and "check_cmd" not in callee.wants:
            _judge(context, low, row)
        return row

    def _unknown(self, low: Low) -> Row:
        name = f"{low.state}.{low.fun}"
        reason = self._callees.refusal(low.state)
        reason = reason or f"'{name}' is not available{self._callees.hint(low.state, low.fun)}"
        comment = f"State '{name}' was not found in SLS '{low.sls}'\nReason: {reason}"
        row = make_row(low, False, f"{comment}{at(low.line)}\n")
        # As in Salt, these rows have neither; tools recognise them by that.
        row["__id__"] = row["__sls__"] = None
        return row

    def _retried(
        self, context: Context, low: Low, callee: Callee, attempt: Attempt, row: Row
    ) -> Row:
        retry, ignored = _retry(low.keywords["retry"])
        if context.test:
            row["comment"] = f"{row['comment']}  {retry.foretold()}"
        comments: List[str] = []
        for number in range(1, 0 if context.test else retry.attempts):
            if row["result"] is retry.until or row.get("skip_watch"):
                break
            comments.append(
                f'Attempt {number}: Returned a result of "{row["result"]}", '
                f'with the following comment: "{row["comment"]}"'
            )
            if not self._wait(retry.interval + _random(retry.splay)):
                break
            row = self._once(context, low, callee, attempt)
        if ignored:
            row["warnings"] = [*row.get("warnings", ()), *ignored]
        if comments:
            row["comment"] = "\n".join([*comments, str(row["comment"])])
        return row

    def _wait(self, seconds: float) -> bool:
        """Wait; return False if the run is cancelled meanwhile."""
        end = time.monotonic() + seconds
        while True:
            if self._cancelled():
                return False
            left = end - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, _RETRY_STEP))


@dataclass(frozen=True)
class Retry:
    """When a state is retried; times in seconds."""

    attempts: int
    interval: float
    splay: float
    #: The result that ends the retries.
    until: Any

    def foretold(self) -> str:
        """Return the comment about retries in test mode, in Salt's words."""
        return (
            f"The state would be retried every {self.interval:g} seconds (with a splay of up to "
            f"{self.splay:g} seconds) a maximum of {self.attempts} times or until a result of "
            f"{self.until} is returned"
        )


def _retry(written: Any) -> Tuple[Retry, List[str]]:
    """Return the retry of a state, and warnings about invalid values."""
    plan = written if isinstance(written, Mapping) else {}
    ignored: List[str] = []
    attempts = int(_number(plan, "attempts", RETRY_ATTEMPTS, ignored))
    interval = _number(plan, "interval", RETRY_INTERVAL, ignored)
    splay = _number(plan, "splay", 0.0, ignored)
    return Retry(attempts, interval, splay, plan.get("until", True)), ignored


def _number(plan: Mapping[str, Any], name: str, default: float, ignored: List[str]) -> float:
    """Return a number of a retry; as in Salt, an invalid one is ignored, but with a warning."""
    try:
        found = float(plan.get(name, default))
        if not math.isfinite(found):
            raise ValueError
        return max(0.0, found)
    except (OverflowError, TypeError, ValueError):
        ignored.append(f"retry: {name} is no number: {plan[name]!r}; it counts as {default:g}")
        return default


def _random(most: float) -> float:
    """Return a random part of *most*, so that hosts do not retry a service at the same time."""
    if not most:
        return 0.0
    from random import uniform

    return uniform(0, most)


@contextmanager
def _umask(mask: Optional[int]) -> Iterator[None]:
    """Apply the `umask` of a state while it runs; None changes nothing."""
    if mask is None:
        yield
        return
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _incomplete(low: Low, missing: Sequence[str]) -> Row:
    texts = (f"Missing parameter {name} for state {low.state}.{low.fun}" for name in missing)
    return make_row(low, False, "\n".join(texts) + f"{at(low.line)}\n")


def make_row(
    low: Low, result: Optional[bool], comment: str, changes: Optional[Mapping[str, Any]] = None
) -> Row:
    """Return a row without number and times."""
    return {
        "name": low.name,
        "changes": dict(changes) if changes else {},
        "result": result,
        "comment": comment,
        "__sls__": low.sls,
        "__id__": low.id,
    }


def _answer(context: Context, low: Low, callee: Callee, extra: Optional[Mapping[str, Any]]) -> Row:
    arguments: Dict[str, Any] = dict(low.args)
    for key in callee.wants:
        if key in low.keywords:
            arguments[key] = low.keywords[key]
    if LOW in callee.wants:
        arguments[LOW] = low.as_dict()
    if extra is not None:
        # mod_watch gets the arguments of another function; drop those that it does not accept.
        arguments.update(extra)
        if not callee.open:
            arguments = {key: arguments[key] for key in arguments if key in callee.accepts}
    env = str(low.keywords.get("saltenv") or low.env)
    if env != context.saltenv:
        context = context.with_(saltenv=env)
    log.debug("running state %s", low.key)
    try:
        with context.state_guard(callee.origin):
            found = callee.call(context, low.name, **arguments)
    except Exception as error:  # a plug-in may raise anything; only its own row fails
        log.debug("state %s failed with an exception", low.key, exc_info=True)
        return make_row(low, False, f"An exception occurred in this state: {error_line(error)}")
    log.debug("state %s ended with %s", low.key, found.result)
    row = make_row(low, found.result, found.comment, found.changes)
    warnings = [*found.warnings, *_slips(low, callee, found.warnings)]
    if warnings:
        row["warnings"] = warnings
    return row


def _slips(low: Low, callee: Callee, told: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each probable typo that the state itself has not *told*."""

    def is_known(key: str) -> bool:
        return key in callee.reads() or any(f"'{key}'" in text for text in told)

    if callee.open:
        yield from slips(low, callee.accepts, is_known)


def _outside_guard(context: Context, low: Low, callee: Callee) -> Unguarded:
    """Return the custom code and commands of a state that the guard of test mode can't cover."""
    kinds = conditions.KINDS if "check_cmd" not in callee.wants else conditions.KINDS[:-1]
    commands = sum(conditions.commands(context, low, kind) for kind in kinds)
    return Unguarded(int(callee.origin != BUILT_IN), commands)


def _judge(context: Context, low: Low, row: Row) -> None:
    """Let check_cmd decide the result of a row."""
    try:
        failed = conditions.failed_check(context, low)
    except Exception as error:  # the function of a condition may raise anything
        row["result"] = False
        log.debug("check_cmd of %s failed", low.key, exc_info=True)
        fault = f"check_cmd can't be run: {error_line(error)}"
        row["comment"] = f"An exception occurred in this state: {fault}"
        return
    row["result"] = not failed
    outcome = "failed" if failed else "succeeded"
    row["comment"] = f"check_cmd determined the state {outcome}"


def listener(low: Low) -> Low:
    """Return the low state that a listener runs at the end of the run."""
    keywords = {key: value for key, value in low.keywords.items() if key not in REQUISITES}
    return replace(low, id=f"listener_{low.id}", fun="mod_watch", keywords=keywords)
