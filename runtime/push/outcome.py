"""The result of a run that could not report it: killed, cancelled, or stopped with its host."""

from __future__ import annotations

from typing import Any, Dict, Optional

from catena.core.clock import SystemClock, read_boot_id
from catena.core.errors import CatenaError
from catena.core.frozen import replace
from catena.core.job import JobReturn, JobSpec
from catena.runtime.push.protocol import RunResult
from catena.runtime.push.runs import RunFolder, StepReader
from catena.states.compiler.model import TAG_SEPARATOR

INTERRUPTED = (
    "Interrupted: {why} while this ran, and it may have happened in part, wholly or not at all. "
    "Look at the host before it is run again."
)
_DIED = "the process of this run was killed, or its host stopped,"
_NO_JOB = JobSpec("0" * 20, "")


def lost(run: RunFolder, why: str = "") -> RunResult:
    """Return the result of a run without one of its own, from its journal.

    Args:
        run: its processes have ended.
        why: the reason if it was killed intentionally; "" if unknown.
    """
    spec = _spec(run)
    steps = StepReader(run.steps).all()
    rows: Dict[str, Any] = {}
    under_way: Dict[str, Any] = {}
    for step in steps:
        if step.kind == "state":
            rows[str(step.data.get("key"))] = step.data.get("ret")
            under_way = {}
        elif step.kind == "begin":
            under_way = step.data
    text = INTERRUPTED.format(why=f"this was {why}" if why else _DIED)
    if under_way:
        rows[str(under_way.get("key"))] = _row(under_way, len(rows), text)
    tail = run.output_tail()
    said = f"\nIts last words:\n{tail}" if tail and not why else ""
    value: Any = rows or (why or INTERRUPTED.format(why=_DIED)) + said
    interrupted = not why or bool(under_way)
    return replace(failed(run, spec, value), interrupted=interrupted)


def _row(under_way: Dict[str, Any], number: int, text: str) -> Dict[str, Any]:
    key = str(under_way.get("key"))
    parts = key.split(TAG_SEPARATOR)
    return {
        "name": parts[2] if len(parts) == 4 else key,
        "result": False,
        "changes": {},
        "comment": text,
        "__id__": under_way.get("id"),
        "__sls__": under_way.get("sls"),
        "__run_num__": number,
    }


def failed(run: RunFolder, spec: Optional[JobSpec], value: Any) -> RunResult:
    """Return the result of a run that failed as a whole."""
    spec = spec or _spec(run)
    began = _began(run)
    lasted = max(0.0, SystemClock().now().timestamp() - began)
    out = "highstate" if isinstance(value, dict) else ""
    ret = JobReturn(
        spec.jid, spec.fun, (), False, 1, value, began, lasted, out=out, boot_id=boot_id()
    )
    return RunResult(ret, raised=not isinstance(value, dict))


def _spec(run: RunFolder) -> JobSpec:
    try:
        return run.read_job().spec
    except (CatenaError, OSError):
        return _NO_JOB


def _began(run: RunFolder) -> float:
    try:
        return (run.path / "runner").stat().st_mtime
    except OSError:
        return SystemClock().now().timestamp()


def boot_id() -> str:
    """Return the id of the running boot; "" if unknown: then no process counts as alive."""
    try:
        return read_boot_id()
    except OSError:
        return ""
