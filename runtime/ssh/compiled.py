"""The bundle as its interpreter compiled it, so that the next start reads no source.

Imports from an archive are never cached by Python; compiling is half of the time of a start. The
name of the file holds the bundle's hash, the interpreter's magic number and its own hash, so that
`ssh/bootstrap.py` can tell whether it is whole and fits.
"""

from __future__ import annotations

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
    """Write the compiled form of a bundle beside it; return its file.

    Raises:
        OSError: it can't be read or written.
    """
    os.nice(10)
    made = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            code = compile(source.read(name), name, "exec", dont_inherit=True)
            data = importlib.util.MAGIC_NUMBER + _HEAD + marshal.dumps(code)
            # Without a time: what visits at once compile has one name, and is kept once.
            target.writestr(zipfile.ZipInfo(f"{name}c"), data)
    data = made.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    result = path.with_name(f"{path.stem}.{importlib.util.MAGIC_NUMBER.hex()}.{digest}.zip")
    write_durable(result, data)
    return result
