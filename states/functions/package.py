"""state.pkg: run a tarball of compiled states, in the format of salt-ssh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.files import read_limited
from catena.core.plugins import function
from catena.modules.file.source import hash_file
from catena.states.compiler import api

_SIZE_LIMIT = 64 * 1024 * 1024


@function(queued=True, out="highstate", fails="states")
def pkg(
    context: Context, pkg_path: str, pkg_sum: str, hash_type: str, test: Optional[bool] = None
) -> Any:
    """Run the low chunks of a tarball: lowstate.json, with pillar.json beside it.

    Args:
        context: of the job; its file roots serve the files of the states.
        pkg_path: path of the tarball on this host.
        pkg_sum: its hash, which is checked before unpacking.
        hash_type: of the hash, such as sha256.
        test: change nothing; report what would change.

    Returns:
        Rows as of state.apply; {} if the tarball is missing or has another hash.

    Raises:
        UsageError: the tarball holds no low chunks.
    """
    # Imported here: only this function needs these modules, and they are large.
    import tempfile

    from catena.modules.shared.unpack import Archive, extract

    path = Path(pkg_path)
    if not path.is_file() or hash_file(path, hash_type) != pkg_sum:
        return {}
    with tempfile.TemporaryDirectory(prefix="catena-pkg-") as folder:
        extract(Archive(path, "tar"), Path(folder), keep_owner=False)
        chunks = _read(Path(folder, "lowstate.json"))
        pillar = _read(Path(folder, "pillar.json"))
    if not isinstance(chunks, list):
        raise UsageError(f"{pkg_path} holds no lowstate.json")
    changes: Dict[str, Any] = {"pillar": pillar} if isinstance(pillar, dict) else {}
    if test is not None:
        changes["test"] = bool(test)
    lows = [api.low_from_chunk(chunk) for chunk in chunks]
    return api.run(context.with_(**changes) if changes else context, lows)


def _read(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(read_limited(path, _SIZE_LIMIT))
    except ValueError as problem:
        raise UsageError(f"{path.name} is no JSON: {problem}") from problem
