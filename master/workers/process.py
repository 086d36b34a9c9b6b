"""A worker process: reads one task at a time from stdin and writes its answer to stdout."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, BinaryIO

import msgpack

from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.records import decode
from catena.master.process import log
from catena.master.workers.tasks import call, pillar, reactions, roster

#: Limit of a child's address space in bytes. A template that builds an endless list hits this
#: limit (attack row "endless template"), and only its own task fails.
MEMORY_BYTES = 2 * 1024**3

Task = Callable[[MasterSettings, Mapping[str, Any]], Any]
#: Tasks by name. A child runs only these and those of engines.
TASKS: Mapping[str, Task] = {
    "pillar": pillar,
    "reactions": reactions,
    "call": call,
    "roster": roster,
}


def _read(stream: BinaryIO) -> Any:
    head = stream.read(4)
    if len(head) < 4:
        return None
    return msgpack.unpackb(
        stream.read(int.from_bytes(head, "big")), raw=False, strict_map_key=False
    )


def _write(stream: BinaryIO, data: Any) -> None:
    body: bytes = msgpack.packb(data, use_bin_type=True, default=str)
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()


def _task(name: str, module: str) -> Task:
    """Return a task; *module* has the task of an engine, "" means one of TASKS."""
    return import_module(module).task if module else TASKS[name]


def _answer(settings: MasterSettings, frame: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"value": _task(frame["task"], frame["module"])(settings, frame["params"])}
    except CatenaError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"needs more than {MEMORY_BYTES >> 20} MiB of memory"}
    except RecursionError:
        return {"error": "is nested too deeply"}
    except Exception as error:  # noqa: BLE001 - the edge of the process: one task, one answer
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Serve until stdin closes."""
    # A terminal sends signals to the whole process group, but only the master ends its workers.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # Tasks and their commands may print, so stdout is redirected and a copy carries the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    settings = decode(MasterSettings, _read(sys.stdin.buffer))
    # Log records may contain names chosen by minions; this log escapes control characters.
    log.set_up("-", settings.log_level)
    # The pipe is broken if the master was killed; that is not an error of this process.
    with contextlib.suppress(BrokenPipeError):
        while (frame := _read(sys.stdin.buffer)) is not None:
            _write(answers, _answer(settings, frame))


if __name__ == "__main__":
    main()
