"""Renders the chunks of many minions in batches. Pure: no I/O, no clock.

Worker processes render batches, so batches and their results can be packed as plain data. A packed
batch contains equal actions only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catena.core.errors import CatenaError
from catena.core.records import encode
from catena.master.chains import actions, decide
from catena.master.chains.actions import ActionPlan
from catena.master.chains.render import ChainPlan, PlannedAction, RenderedChain, render

#: Maximum number of minions in a batch.
BATCH_MINIONS = 256
#: Maximum estimated size of a batch's chunk files in bytes. A batch of one minion may be larger.
BATCH_BYTES = 8 * 1024 * 1024
#: Estimated bytes that an action needs in a chunk file and the manifest, besides its data.
_STATE_BYTES = 400

#: Minion id -> its plan. All plans of a batch belong to one run of a chain.
Batch = Mapping[str, ChainPlan]


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One rendered chunk file."""

    number: int
    #: Name of the file, without folder.
    file: str
    text: str
    sha256: str
    #: Why the chunk ends before its chain does (`core.job.Boundary`).
    boundary: str


@dataclass(frozen=True, slots=True)
class MinionChunks:
    """The rendered chunks of one minion."""

    chunks: tuple[ChunkFile, ...]
    #: The ChainManifest as plain data.
    manifest: dict[str, Any]
    #: Action id -> number of its chunk, and the boundary that must be proven after it.
    waits: Mapping[int, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class RenderedBatch:
    """The result of a batch."""

    #: Minion id -> its chunks.
    chains: Mapping[str, MinionChunks]
    #: Minion id -> why nothing could be rendered for it.
    refused: Mapping[str, str]


def texts(chains: Mapping[str, MinionChunks]) -> dict[str, str]:
    """Return file name -> text of the chunk files of some minions."""
    return {chunk.file: chunk.text for chain in chains.values() for chunk in chain.chunks}


def of_chain(chain: RenderedChain) -> MinionChunks:
    """Return a rendered chain in the form of a batch's result."""
    waits = decide.waits_of(chain.manifest)
    return MinionChunks(
        tuple(
            ChunkFile(
                chunk.manifest.number,
                chunk.file,
                chunk.text,
                chunk.manifest.sha256,
                chunk.manifest.boundary.value,
            )
            for chunk in chain.chunks
        ),
        encode(chain.manifest),
        {action: (number, proof.value) for action, (number, proof) in waits.items()},
    )


def rendered(batch: Batch) -> RenderedBatch:
    """Render a batch; a failure for one minion does not affect the others."""
    chains, refused = {}, {}
    for minion, plan in batch.items():
        try:
            chains[minion] = of_chain(render(plan))
        except CatenaError as error:
            refused[minion] = str(error)
    return RenderedBatch(chains, refused)


class _Weights:
    """Estimates the size of plans; equal actions are measured once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, plan: ChainPlan) -> int:
        """Return the estimated size of the chunk files of *plan*, in bytes."""
        return sum(self._action(action.plan) for action in plan.actions)

    def _action(self, plan: ActionPlan) -> int:
        found = self._known.get(id(plan))
        if found is None:
            found = self._known[id(plan)] = _STATE_BYTES + len(repr(plan.data))
        return found


def batches(plans: Batch) -> Iterator[tuple[Batch, int]]:
    """Yield *plans* in batches of bounded size, in their order, each with its estimated size."""
    weights = _Weights()
    some: dict[str, ChainPlan] = {}
    size = 0
    for minion, plan in plans.items():
        weight = weights.of(plan)
        if some and (len(some) == BATCH_MINIONS or size + weight > BATCH_BYTES):
            yield some, size
            some, size = {}, 0
        some[minion] = plan
        size += weight
    if some:
        yield some, size


# -- as plain data -----------------------------------------------------------------------------


def pack(batch: Batch) -> dict[str, Any]:
    """Return a batch, which must not be empty, as plain data."""
    one = next(iter(batch.values()))
    known: dict[int, int] = {}
    kinds: list[tuple[str, dict[str, Any], str]] = []
    minions = []
    for minion, plan in batch.items():
        places = []
        for action in plan.actions:
            place = known.get(id(action.plan))
            if place is None:
                place = known[id(action.plan)] = len(kinds)
                what = action.plan
                kinds.append((what.type.value, what.stored(), what.repeat.value))
            places.append((action.id, place))
        minions.append((minion, plan.machine_id, plan.agentless, plan.transactional, places))
    return {
        "chain": one.chain_id,
        "epoch": one.epoch,
        "agent_packages": list(one.agent_packages),
        "kinds": kinds,
        "minions": minions,
    }


def unpack(data: Mapping[str, Any]) -> dict[str, ChainPlan]:
    """Return the batch that `pack` packed."""
    kinds = [actions.restore(*kind) for kind in data["kinds"]]
    return {
        minion: ChainPlan(
            data["chain"],
            machine,
            [PlannedAction(action, kinds[place]) for action, place in places],
            data["agent_packages"],
            data["epoch"],
            agentless,
            transactional,
        )
        for minion, machine, agentless, transactional, places in data["minions"]
    }


def pack_rendered(done: RenderedBatch) -> dict[str, Any]:
    """Return the result of a batch as plain data."""
    chains = {
        minion: (
            [(c.number, c.file, c.text, c.sha256, c.boundary) for c in chain.chunks],
            chain.manifest,
            [(action, *wait) for action, wait in chain.waits.items()],
        )
        for minion, chain in done.chains.items()
    }
    return {"chains": chains, "refused": dict(done.refused)}


def unpack_rendered(data: Mapping[str, Any]) -> RenderedBatch:
    """Return the result that `pack_rendered` packed."""
    chains = {
        minion: MinionChunks(_files(chunks), manifest, {a: (n, proof) for a, n, proof in waits})
        for minion, (chunks, manifest, waits) in data["chains"].items()
    }
    return RenderedBatch(chains, data["refused"])


def _files(chunks: Sequence[Sequence[Any]]) -> tuple[ChunkFile, ...]:
    return tuple(ChunkFile(*chunk) for chunk in chunks)


def task(_settings: object, params: Mapping[str, Any]) -> dict[str, Any]:
    """Render a packed batch, return the packed result: the task "chunks" of worker processes."""
    return pack_rendered(rendered(unpack(params)))
