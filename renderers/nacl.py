"""The nacl renderer: decrypts `NACL[…]` in rendered data (`#!jinja|yaml|nacl`).

Keys are configured as for Salt's functions `nacl.*`: `nacl.config` with `sk` or `sk_file` and
`box_type`.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Callable, Mapping

from catena.core.context import Context
from catena.core.errors import CatenaError
from catena.core.files import read_limited
from catena.core.patterns import lazy_pattern
from catena.core.types import SourceLine
from catena.renderers.source import DataPath, Rendered, SourceError

#: Below the folder of the configuration: the secret key, readable by the service alone.
KEY_FILE = "nacl"
#: Maximum size of a key file in bytes: 32 bytes in base64, and a line end.
_KEY_LIMIT = 64
MESSAGE_LIMIT = 1000
_MESSAGE = lazy_pattern(r"NACL\[([A-Za-z0-9+/=\s]*)\]")
BOX_TYPES = ("sealedbox", "secretbox")


class NaclError(CatenaError):
    """A key can't be used or a message can't be decrypted."""


def decrypt(context: Context, rendered: Rendered) -> Any:
    """Return the data with every value `NACL[base64]` replaced by its text.

    Raises:
        SourceError: a message can't be decrypted; names its line. Ciphertext is never returned,
            because a state would write it into a file.
    """
    return _Walk(context, rendered).value(rendered.data, ())


def opener(context: Context) -> Callable[[bytes], bytes]:
    """Return the function that decrypts a message by the configured key.

    Raises:
        NaclError: PyNaCl is missing, or the key can't be read.
    """
    try:
        from nacl import exceptions, public, secret
    except ImportError:
        raise NaclError("the nacl renderer needs the Python package PyNaCl on this host") from None
    options = context.opts.get("nacl.config")
    options = options if isinstance(options, Mapping) else {}
    kind = str(options.get("box_type") or BOX_TYPES[0])
    if kind not in BOX_TYPES:
        raise NaclError(f"nacl.config: box_type: expected sealedbox or secretbox, got {kind!r}")
    key = _key(context, options)
    box: Any = secret.SecretBox(key)
    if kind == BOX_TYPES[0]:
        box = public.SealedBox(public.PrivateKey(key))

    def opened(message: bytes) -> bytes:
        try:
            return bytes(box.decrypt(message))
        except (exceptions.CryptoError, exceptions.ValueError, exceptions.TypeError):
            raise NaclError("the message was not encrypted for this key") from None

    return opened


def _key(context: Context, options: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes of the secret key; messages name its file, never its text."""
    written, where = options.get("sk"), "nacl.config: sk"
    if not written:
        path = Path(str(options.get("sk_file") or context.host.conf_dir / KEY_FILE))
        where = str(path)
        try:
            written = read_limited(path, _KEY_LIMIT).decode("ascii")
        except FileNotFoundError:
            raise NaclError(f"{path}: no key; set nacl.config: sk_file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise NaclError(f"{path}: {getattr(error, 'strerror', '') or 'no base64'}") from None
    try:
        key = base64.b64decode(str(written).strip(), validate=True)
    except (binascii.Error, ValueError):
        raise NaclError(f"{where}: no base64") from None
    if len(key) != 32:
        raise NaclError(f"{where}: {len(key)} bytes, a key has 32")
    return key


class _Walk:
    """Goes through nested data."""

    def __init__(self, context: Context, rendered: Rendered) -> None:
        self._context = context
        self._rendered = rendered
        self._count = 0
        self._opened: Any = None

    def value(self, value: Any, path: DataPath) -> Any:
        """Return *value*, which lies at *path*, decrypted."""
        if isinstance(value, dict):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and "NACL[" in value:
            place = self._rendered.place(*path)
            return _MESSAGE.sub(lambda found: self._one(found[1], place), value)
        return value

    def _one(self, message: str, place: SourceLine) -> str:
        self._count += 1
        if self._count > MESSAGE_LIMIT:
            raise SourceError(f"more than {MESSAGE_LIMIT} NACL messages", place)
        try:
            if self._opened is None:
                self._opened = opener(self._context)
            data = self._opened(base64.b64decode("".join(message.split()), validate=True))
        except (NaclError, binascii.Error) as error:
            reason = str(error) if isinstance(error, NaclError) else "no base64"
            raise SourceError(f"nacl can't decrypt this: {reason}", place) from None
        try:
            return str(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise SourceError("the decrypted message is not UTF-8", place) from None
