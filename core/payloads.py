"""The kinds of payloads that jobs carry, and what their bodies are.

A new kind is a line in `KINDS`. An agent refuses a job whose payload is of a kind that it does not
know.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

from catena.core.errors import RecordError, UsageError
from catena.core.job import CHAIN, ChainManifest, JobSpec, Payload
from catena.core.records import decode, encode, plain
from catena.core.suggest import unknown


class OlderAgentError(UsageError):
    """A job can't be sent to an agent of so old a version."""


#: The record of each kind.
KINDS: Mapping[str, Type[Any]] = {CHAIN: ChainManifest}


def of_chain(manifest: ChainManifest) -> Payload:
    """Return the payload of a job that starts a chain."""
    return Payload(CHAIN, manifest.chain_id, manifest.epoch, encode(manifest))


def chain_of(spec: Optional[JobSpec]) -> Optional[ChainManifest]:
    """Return the chain that a job starts; None: its payload is of another kind, or it has none.

    Raises:
        RecordError: the body is no manifest, or one of another chain.
    """
    payload = spec.payload if spec else None
    if payload is None or payload.kind != CHAIN:
        return None
    manifest = decode(ChainManifest, payload.body, CHAIN)
    if (manifest.chain_id, manifest.epoch) != (payload.number, payload.epoch):
        raise RecordError(
            f"{CHAIN}: the manifest is of chain {manifest.chain_id}, epoch {manifest.epoch}; the "
            f"payload is of chain {payload.number}, epoch {payload.epoch}"
        )
    return manifest


def why_not(payload: Payload) -> str:
    """Return why a job with this payload can't run here; "" if it can."""
    record = KINDS.get(payload.kind)
    if record is None:
        return unknown("payload", payload.kind[:80], KINDS)
    try:
        decode(record, payload.body, payload.kind)
    except RecordError as error:
        return str(error)
    return ""


def before_payloads(spec: JobSpec) -> Dict[str, Any]:
    """Return the data of a job as agents of wire numbers below 5 know it.

    Raises:
        OlderAgentError: its payload is no chain: such agents can't run it.
    """
    data: Dict[str, Any] = plain(spec)
    payload = data.pop("payload", None)
    if payload is None:
        return data
    if payload.kind != CHAIN:
        raise OlderAgentError(f"its agent's version runs no {payload.kind}: upgrade it first")
    return {**data, CHAIN: payload.body}
