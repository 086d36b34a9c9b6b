"""A worker process: takes one task after the other from stdin, answers on stdout."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgpack

from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.core.records import decode
from catena.master.process import log
from catena.master.workers.tasks import call, pillar, reactions, roster

#: Address space of one child: a template that builds a list without end dies here (attack row
#: "endless template"), and only its own task fails.
MEMORY_BYTES = 2 * 1024**3

#: What a child can do, by name. Nothing else is reachable from outside.
TASKS: Mapping[str, Callable[[MasterSettings, Mapping[str, Any]], Any]] = {
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


def _answer(settings: MasterSettings, frame: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"value": TASKS[frame["task"]](settings, frame["params"])}
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
    # The master itself ends its processes; a terminal's signals reach the whole group.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # Tasks may print or start commands that do: the real stdout is for answers only.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    settings = decode(MasterSettings, _read(sys.stdin.buffer))
    # Names that minions chose are in what tasks say: one line each, nothing a terminal obeys.
    log.set_up("-", settings.log_level)
    # A master that was killed asks for no answer any more, and is no error of this process.
    with contextlib.suppress(BrokenPipeError):
        while (frame := _read(sys.stdin.buffer)) is not None:
            _write(answers, _answer(settings, frame))


if __name__ == "__main__":
    main()
