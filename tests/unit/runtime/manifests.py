"""A manifest of a chain."""

from __future__ import annotations

from catena.core.job import Boundary, ChainManifest, ChunkManifest

CHUNK = ChunkManifest(1, "actionchains.actionchain_131_abc_1", "0" * 64, 10, Boundary.none, ())

MANIFEST = ChainManifest(131, "abc", 1, (CHUNK,))
