"""Parses what a minion returned about a chain. Pure; the input is untrusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.core import run_ref
from catena.core.chain_calls import BUSY
from catena.core.job import JobReturn
from catena.core.run_ref import RunRef
from catena.master.chains.decide import Outcome, Report
from catena.master.chains.render import SCHEDULE_NEXT, VERIFY_AGENT, VERIFY_PACKAGES

#: Keys of action results, as the reference matches them.
_KEY = re.compile(r".*\|-mgr_actionchain_([0-9]{1,18})_action_([0-9]{1,18})_chunk_([0-9]{1,6}).*")
_SLS = re.compile(r"actionchains\.actionchain_([0-9]{1,18})_.+_([0-9]{1,6})\Z")
#: Start of the comment of an action with unknown outcome (written by `runtime.chunk_run`).
_INTERRUPTED = "Interrupted:"
#: Maximum length of a comment or error text, characters.
_TEXT_LIMIT = 16 * 1024
_DAY = 24 * 3600
#: Maximum number of runs that one return may give up.
_RUNS_LIMIT = 1000
#: Maximum number of chains on which one return may report. A job runs one chain, or resumes the
#: few that wait; each costs queries in the store's writer.
_CHAINS_LIMIT = 100


@dataclass
class ChainResult:
    """What one return reports about one chain; the fields are those of `decide.Report`."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    chunks: set[int] = field(default_factory=set)
    failed_verifies: dict[int, str] = field(default_factory=dict)
    unscheduled: dict[int, str] = field(default_factory=dict)

    def report(self, known: frozenset[int], boot_id: str, current_boot: str) -> Report:
        """Return the result as a `decide.Report` that contains only *known* action ids."""
        outcomes = {key: value for key, value in self.outcomes.items() if key in known}
        return Report(
            outcomes,
            frozenset(self.chunks),
            dict(self.failed_verifies),
            boot_id,
            current_boot,
            dict(self.unscheduled),
        )


def read(ret: JobReturn) -> dict[int, ChainResult]:
    """Return chain id -> what *ret* reports about the chain; empty without results of chains.

    Besides the actions, it reads the states that verify a chunk and the one that schedules the
    next chunk. Results of chains beyond the first `_CHAINS_LIMIT` are ignored.
    """
    found: dict[int, ChainResult] = {}
    if not isinstance(ret.value, Mapping):
        return found
    first = _first_start(ret.value)
    for key, row in ret.value.items():
        if isinstance(key, str) and isinstance(row, Mapping):
            _read_row(found, key, row, (ret.started, first))
    return found


def _read_row(
    found: dict[int, ChainResult], key: str, row: Mapping[str, Any], base: tuple[float, float]
) -> None:
    place = _SLS.match(str(row.get("__sls__", "")))
    if place:
        _result_of(found, int(place[1])).chunks.add(int(place[2]))
    action = _KEY.match(key)
    if action:
        chain, chunk = _result_of(found, int(action[1])), int(action[3])
        chain.chunks.add(chunk)
        chain.outcomes[int(action[2])] = _outcome(chunk, row, base)
    elif place and row.get("result") is False:
        chain = _result_of(found, int(place[1]))
        comment = str(row.get("comment", ""))[:_TEXT_LIMIT]
        if row.get("__id__") in (VERIFY_AGENT, VERIFY_PACKAGES):
            chain.failed_verifies[int(place[2])] = comment
        elif row.get("__id__") == SCHEDULE_NEXT:
            chain.unscheduled[int(place[2])] = comment


def _result_of(found: dict[int, ChainResult], chain_id: int) -> ChainResult:
    """Return the result of a chain; beyond `_CHAINS_LIMIT` chains a result that nobody reads."""
    known = found.get(chain_id, ChainResult())
    if len(found) < _CHAINS_LIMIT:
        found[chain_id] = known
    return known


def _outcome(chunk: int, row: Mapping[str, Any], base: tuple[float, float]) -> Outcome:
    result = row.get("result")
    comment = row.get("comment", "")
    text = comment if isinstance(comment, str) else str(comment)
    changes = row.get("changes")
    began = _seconds_of_day(row.get("start_time"))
    duration = row.get("duration")
    known = began is not None and base[1] >= 0 and base[0] > 0
    return Outcome(
        chunk=chunk,
        # Everything except true and null is a failure.
        result=result if result is True or result is None else False,
        comment=text[:_TEXT_LIMIT],
        changes=changes if isinstance(changes, Mapping) else {},
        started=base[0] + ((began or 0.0) - base[1]) % _DAY if known else 0.0,
        duration_seconds=_milliseconds(duration) / 1000,
        reason="interrupted" if result is False and text.startswith(_INTERRUPTED) else "",
    )


def _milliseconds(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e12 else 0.0


def _first_start(value: Mapping[Any, Any]) -> float:
    """Return the first start_time in run order, in seconds since the minion's midnight; -1: none.

    Salt's start_time is a time of day in the minion's time zone, so only differences are usable.
    """
    rows = [row for row in value.values() if isinstance(row, Mapping)]
    numbered = [row for row in rows if isinstance(row.get("__run_num__"), int)]
    for row in sorted(numbered, key=lambda row: row["__run_num__"]):
        began = _seconds_of_day(row.get("start_time"))
        if began is not None:
            return began
    return -1.0


def _seconds_of_day(text: Any) -> float | None:
    match = re.match(r"(\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)\Z", text) if type(text) is str else None
    if match is None:
        return None
    return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])


#: States of a run on its minion that no resume can continue.
_NOT_RESUMABLE = frozenset({run_ref.UNKNOWN, "done", "failed", "interrupted", "cancelled"})


def disowned(ret: JobReturn) -> str | None:
    """Return why a resume found no run to continue; None if its run only has to wait.

    Args:
        ret: the return of a resume without results.
    """
    if ret.value == {}:
        return "no chain waits on this minion"
    if isinstance(ret.value, Mapping) and ret.value.get("state") in _NOT_RESUMABLE:
        return str(ret.value.get("not_resumed", ""))[:_TEXT_LIMIT]
    return None


def named(ret: JobReturn) -> RunRef | None:
    """Return the run that a resume without results names; None if it names none."""
    return run_ref.named(ret.value) if isinstance(ret.value, Mapping) else None


def given_up(ret: JobReturn) -> list[RunRef]:
    """Return the runs that the return of a `clean` reports as given up."""
    runs = ret.value.get("runs") if ret.success and isinstance(ret.value, Mapping) else None
    if not isinstance(runs, (list, tuple)):
        return []
    named = [run_ref.named(run) for run in runs[:_RUNS_LIMIT] if isinstance(run, Mapping)]
    return [run for run in named if run is not None]


def refused(ret: JobReturn) -> bool:
    """Return whether a `clean` failed for a reason that the next start of a chain meets too."""
    return not ret.success and BUSY not in error_text(ret)


def error_text(ret: JobReturn) -> str:
    """Return the error text of a return without state results."""
    value = ret.value
    if isinstance(value, (list, tuple)):
        text = "\n".join(str(item) for item in value)
    elif isinstance(value, Mapping):
        text = str(value.get("comment") or value.get("not_resumed") or dict(value))
    else:
        text = "" if value is None else str(value)
    return text.strip()[:_TEXT_LIMIT] or f"the job failed with exit code {ret.retcode}"
