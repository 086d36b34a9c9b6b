"""Chains whose actions leave a mark, as a master sends them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from catena.core.job import (
    ActionKind,
    ActionManifest,
    Boundary,
    ChainManifest,
    ChunkManifest,
)

NAME = "mgr_actionchain_{chain}_action_{action}_chunk_{chunk}"


def texts_of(
    names: tuple[str, str, str], witness: Path, number: int, gate: str, minutes: int
) -> tuple[str, str]:
    """Return both chunks."""
    first, second, third = names
    return (
        f"""{first}:
    mgrcompat.module_run:
    -   name: probe.hold
    -   path: {witness}
    -   release: {gate}
    -   text: {number}-1
{second}:
    mgrcompat.module_run:
    -   name: system.reboot
    -   at_time: {minutes}
    -   require:
        -   mgrcompat: {first}
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: {number}
    -   chunk: 2
    -   next_action_id: 3
    -   require:
        -   mgrcompat: {second}
""",
        f"""{third}:
    mgrcompat.module_run:
    -   name: probe.mark
    -   path: {witness}
    -   text: {number}-3
""",
    )


def chain(
    root: Path, witness: Path, number: int = 7, gate: str = "/dev/null", minutes: int = 0
) -> ChainManifest:
    """Write a chain of three actions: mark, reboot, mark; return its manifest."""
    first, second, third = (
        NAME.format(chain=number, action=a, chunk=1 + a // 3) for a in (1, 2, 3)
    )
    texts = texts_of((first, second, third), witness, number, gate, minutes)
    ids = (((1, first), (2, second)), ((3, third),))
    kinds = {1: ActionKind.idempotent, 2: ActionKind.reboot, 3: ActionKind.idempotent}
    (root / "actionchains").mkdir(exist_ok=True)
    chunks = []
    for index, text in enumerate(texts, 1):
        stem = f"actionchain_{number}_mach1_{index}"
        data = text.encode()
        (root / "actionchains" / f"{stem}.sls").write_bytes(data)
        actions = tuple(ActionManifest(a, state, kinds[a]) for a, state in ids[index - 1])
        digest = hashlib.sha256(data).hexdigest()
        boundary = Boundary.reboot if index == 1 else Boundary.none
        sls = f"actionchains.{stem}"
        chunks.append(ChunkManifest(index, sls, digest, len(data), boundary, actions))
    return ChainManifest(number, "mach1", 1, tuple(chunks))
