"""Record orders as commit 6794b20 (agents of wire number 3, before payloads) packs them.

Run it in a checkout of that commit, with an environment that has its dependencies:

    PYTHONPATH=. python …/tests/cases/wire/make_orders.py > …/tests/cases/wire/wire3.jsonl

Each line has the name of a job and, in hexadecimal digits, the frame of its order, the file that
the agent keeps of it, and the agent's log.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
    JobSpec,
)
from catena.minion.jobs.store import JobStore
from catena.transport import wire
from catena.transport.messages import JobOrder

NAME = "mgr_actionchain_131_action_{}_chunk_{}"
START = "mgractionchains.start"


def chunk(number: int, boundary: Boundary, *actions: tuple[int, ActionKind]) -> ChunkManifest:
    sls = f"actionchains.actionchain_131_mach1_{number}"
    made = tuple(ActionManifest(a, NAME.format(a, number), kind) for a, kind in actions)
    return ChunkManifest(number, sls, f"{number:064x}", 1000 + number, boundary, made)


CHUNKS = (
    chunk(1, Boundary.reboot, (7, ActionKind.once), (8, ActionKind.reboot)),
    chunk(2, Boundary.none, (9, ActionKind.idempotent)),
)
CHAIN = ChainManifest(131, "mach1", 2, CHUNKS)
RESUMED = ChainManifest(131, "mach1", 2, CHUNKS, local_resume_seconds=600)
COMMON: dict[str, Any] = {
    "user": "alice",
    "tgt": "web1",
    "tgt_type": "list",
    "issued": 1000.5,
    "not_after": 2000.5,
    "epoch": 2,
    "metadata": {"suma-action-chain": True, "chain": 131, "epoch": 2},
}
JOBS = {
    "start": JobSpec("20261122200000000001", START, (131,), chain=CHAIN, **COMMON),
    "start with resume": JobSpec("20261122200000000002", START, (131,), chain=RESUMED, **COMMON),
    "ping": JobSpec("20261122200000000003", "test.ping", ("x", 1), {"k": None}, "bob", "*"),
}

for name, spec in JOBS.items():
    frame = wire.pack(JobOrder(spec, 1500.25), msg_id=b"m" * 16)
    with tempfile.TemporaryDirectory() as folder:
        JobStore(Path(folder), "boot1").add(spec)
        log = (Path(folder) / "jobs.log").read_bytes()
        kept = (Path(folder) / "jobs" / spec.jid / "spec").read_bytes()
    row = {"name": name, "frame": frame.hex(), "spec": kept.hex(), "log": log.hex()}
    print(json.dumps(row))
