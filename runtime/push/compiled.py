"""The bundle as its interpreter compiled it, so that the next start reads no source.

Imports from an archive are never cached by Python; compiling is half of the time of a start. The
name of the file holds the bundle's hash, the interpreter's magic number and its own hash, so that
`ssh/push/bootstrap.py` can tell whether it is whole and fits.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import marshal
import os
import zipfile
from pathlib import Path

from catena.core.files import write_durable

#: Flags, time and size of the source (PEP 552), which nobody looks at in an archive without it.
_HEAD = bytes(12)


def compile_bundle(path: Path) -> Path:
    """Write the compiled form of a bundle beside it, unless it is there; return its file.

    Raises:
        OSError: it can't be read or written.
    """
    os.nice(10)
    with path.open("rb") as turn:
        # Two compilations never come to the same bytes, and visits at once would each keep theirs.
        fcntl.flock(turn, fcntl.LOCK_EX)
        start = f"{path.stem}.{importlib.util.MAGIC_NUMBER.hex()}."
        for found in path.parent.glob(f"{start}*.zip"):
            if found.name == f"{start}{_digest(found.read_bytes())}.zip":
                return found
        data = _compiled(path)
        result = path.with_name(f"{start}{_digest(data)}.zip")
        write_durable(result, data)
        return result


def _compiled(path: Path) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            code = compile(source.read(name), name, "exec", dont_inherit=True)
            data = importlib.util.MAGIC_NUMBER + _HEAD + marshal.dumps(code)
            target.writestr(f"{name}c", data)
    return made.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
