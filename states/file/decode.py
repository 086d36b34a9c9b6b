"""file.decode: write the bytes of base64 text to a file."""

from __future__ import annotations

import base64
import binascii
from typing import Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.nested import MISSING, traverse
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.file import content, source
from catena.states.answers import done, failed, would
from catena.states.file.paths import absolute


@state()
def decode(
    context: Context,
    name: str,
    encoded_data: Optional[str] = None,
    contents_pillar: Optional[str] = None,
    encoding_type: str = "base64",
    checksum: str = "md5",
) -> StateResult:
    """Write the bytes of base64 text to the file *name*.

    Args:
        context: of the run.
        name: absolute path.
        encoded_data: the base64 text.
        contents_pillar: pillar path of the text, instead of encoded_data.
        encoding_type: only base64.
        checksum: type of the hash in the changes.
    """
    try:
        path = absolute(name)
        data = _decoded(context, encoded_data, contents_pillar, encoding_type)
        new = _hash(data, checksum)
        old = source.hash_file(path, checksum) if path.is_file() else None
        if old == new:
            return done("File is in the correct state.")
        changes = {"old": old, "new": new}
        if context.test:
            return would("File is set to be updated.", changes if old else {})
        content.write(path, data)
    except (CommandExecutionError, UsageError) as problem:
        return failed(str(problem))
    return done("File was updated.", changes)


def _decoded(context: Context, text: Optional[str], pillar: Optional[str], kind: str) -> bytes:
    if kind != "base64":
        raise UsageError(f"encoding_type {kind!r} is not known; base64 is")
    if bool(text) == bool(pillar):
        raise UsageError("one of encoded_data and contents_pillar is needed, not both")
    found = traverse(context.pillar, str(pillar), MISSING) if pillar else text
    if found is MISSING:
        raise UsageError(f"Pillar data not found: {pillar}")
    try:
        return base64.b64decode("".join(str(found).split()), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UsageError(f"the data are not base64: {problem}") from problem


def _hash(data: bytes, kind: str) -> str:
    import hashlib

    if kind not in hashlib.algorithms_available:
        raise UsageError(f"no hash is called {kind!r}")
    return hashlib.new(kind, data).hexdigest()
