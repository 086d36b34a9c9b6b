"""What of Jinja waits until a template needs it: half of the time that its import takes.

Its cache of bytecode hashes with SHA-1 of OpenSSL; ours with what Python has of its own.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, Optional

from catena.core.digest import sha256
from catena.core.files import write_whole
from catena.core.import_stubs import StandIn, standing_in


def _getattr_static(*arguments: Any) -> Any:
    """Stand for the one of `inspect`: the filter `attr` uses it."""
    from inspect import getattr_static

    return getattr_static(*arguments)


def _sha1(*arguments: Any) -> Any:
    """Stand for the one of `hashlib`: see `Bytecode`."""
    from hashlib import sha1

    return sha1(*arguments)


with standing_in(
    StandIn("inspect", getattr_static=_getattr_static),
    StandIn("hashlib", sha1=_sha1),
    StandIn("tempfile"),
    StandIn("pprint"),
):
    import jinja2
    import jinja2.ext  # noqa: F401
    from jinja2.bccache import Bucket, FileSystemBytecodeCache


class Bytecode(FileSystemBytecodeCache):
    """Compiled templates in a folder, each behind a CRC-32: damaged code is not run."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give *bucket* what is kept of its template, if that is whole."""
        try:
            data = Path(self._get_cache_filename(bucket)).read_bytes()
        except OSError:
            return
        if zlib.crc32(data[4:]).to_bytes(4, "big") == data[:4]:
            bucket.bytecode_from_string(data[4:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what *bucket* has; a full disk is no fault of the template."""
        body = bucket.bytecode_to_string()
        with contextlib.suppress(OSError):
            data = zlib.crc32(body).to_bytes(4, "big") + body
            write_whole(self._get_cache_filename(bucket), data)

    def get_cache_key(self, name: str, filename: Optional[str] = None) -> str:
        """Return the name under which a template is kept."""
        return sha256(f"{name}|{filename or ''}".encode("utf-8", "surrogatepass")).hexdigest()

    def get_source_checksum(self, source: str) -> str:
        """Return what tells a template from what it was."""
        return sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
