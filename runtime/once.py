"""Run one job from stdin without an agent: `python -m catena.runtime.once < job.json`.

Input: one JSON object {"place": {id, machine_id, conf_dir, cache_dir, pki_dir, settings, grains?},
"spec": a JobSpec, "pillar": {…}, "roots": {environment: [folders]}}.
Output on stdout, one JSON object per line: {"progress": {kind, data}} for each step, then
{"return": a JobReturn, "after": null or what has to be done now}. The exit code is 0 if there is a
return, and 2 if the input is invalid.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, TextIO

from catena.core.config.minion import SALT_KEYS, MinionSettings
from catena.core.config.schema import load
from catena.core.context import FileClient
from catena.core.errors import RecordError, UsageError
from catena.core.job import JobSpec
from catena.core.records import decode, encode
from catena.runtime.executor import execute
from catena.runtime.host import AgentHome
from catena.runtime.results import json_ready, plain
from catena.runtime.session import local_session

INPUT_LIMIT = 64 * 1024 * 1024


def main(stdin: TextIO = sys.stdin) -> int:
    """Run the job described on *stdin*; return the exit code."""
    # Keep a job's own output from mixing with the lines of the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with answer:

        def say(line: Dict[str, Any]) -> None:
            answer.write(json.dumps(json_ready(plain(line))) + "\n")
            answer.flush()

        try:
            data = _read(stdin)
            spec = decode(JobSpec, data.get("spec"), "spec")
            place = _place(data.get("place"))
            files = _files(data.get("roots") or {})
        except (UsageError, ValueError) as error:
            say({"error": str(error)})
            return 2
        pillar = data.get("pillar") or {}
        session = local_session(
            place,
            files,
            lambda override, *_: ({**pillar, **override}, ()),
            spec,
            watch=lambda kind, step: say({"progress": {"kind": kind, "data": step}}),
        )
        outcome = execute(session, spec)
        say({"return": encode(outcome.ret), "after": encode(outcome.after)})
    return 0


def _read(stdin: TextIO) -> Dict[str, Any]:
    text = stdin.read(INPUT_LIMIT + 1)
    if len(text) > INPUT_LIMIT:
        raise UsageError(f"more than {INPUT_LIMIT} characters on stdin")
    data = json.loads(text)
    if not isinstance(data, dict):
        raise UsageError("stdin: expected one JSON object")
    return data


def _place(data: Any) -> AgentHome:
    if not isinstance(data, Mapping):
        raise RecordError("place: expected a mapping")
    missing = {"id", "machine_id", "conf_dir", "cache_dir", "pki_dir"} - data.keys()
    if missing:
        raise RecordError(f"place: missing field {min(missing)!r}")
    settings, loaded = load(MinionSettings, data.get("settings") or {}, SALT_KEYS)
    return AgentHome(
        settings,
        str(data["id"]),
        str(data["machine_id"]),
        Path(data["conf_dir"]),
        Path(data["cache_dir"]),
        Path(data["pki_dir"]),
        grains=data.get("grains"),
        module_options=loaded.module_options,
    )


def _files(roots: Mapping[str, List[str]]) -> FileClient:
    from catena.fileserver.roots import RootsClient

    return RootsClient({name: list(folders) for name, folders in roots.items()})


if __name__ == "__main__":
    sys.exit(main())
