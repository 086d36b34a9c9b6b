"""Call mount(8) without passwords in its command line.

mount.cifs takes its password from the environment variable PASSWD. For other types, the line of a
private table of file systems holds the options (mount --fstab).
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Mapping, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass, field
from catena.core.redact import MASK
from catena.modules.shared.fstab import FstabLine, is_secret

_CIFS = ("cifs", "smb3")
_CIFS_KEYS = ("password", "pass")


@dataclass(frozen=True)
class Private:
    """How the secret options of a mount get to mount(8)."""

    #: Options with secret values.
    secrets: Tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    #: Path of a private table with the mount; "" if none is needed.
    table: str = ""

    def hide(self, text: str) -> str:
        """Return what mount(8) printed without the secrets."""
        for option in self.secrets:
            text = text.replace(option.partition("=")[2], MASK)
        return text


def options_without(options: Sequence[str], private: Private) -> List[str]:
    """Return the options that may be in the command line."""
    return [one for one in options if one not in private.secrets]


@contextmanager
def private_options(
    device: str, point: str, fstype: str, options: Sequence[str]
) -> Iterator[Private]:
    """Prepare the secret options of a mount for mount(8), until the block ends."""
    secrets = tuple(one for one in options if is_secret(one))
    values = [one.partition("=")[2] for one in secrets]
    keys = {one.partition("=")[0] for one in secrets}
    if not secrets:
        yield Private()
    elif fstype in _CIFS and keys <= set(_CIFS_KEYS) and len(keys) == 1:
        yield Private(secrets, {"PASSWD": values[-1]})
    elif "remount" in options:
        # mount(8) ignores a private table for an existing mount; the secret was given before.
        yield Private(secrets)
    else:
        entry = FstabLine(device, point, fstype or "auto", tuple(options))
        with tempfile.TemporaryDirectory(prefix="catena-mount-") as folder:
            path = Path(folder, "fstab")
            path.touch(mode=0o600)
            path.write_text(f"{entry.line()}\n", encoding="utf-8", errors="surrogateescape")
            yield Private(secrets, {}, str(path))


def mount_words(
    device: str, point: str, fstype: str, options: Sequence[str], private: Private
) -> List[str]:
    """Return the command line of mount(8).

    Raises:
        UsageError: the device would be read as an option.
    """
    if device.startswith("-"):
        raise UsageError(f"device: {device[:80]!r} is no device")
    if private.table:
        return ["mount", "--fstab", private.table, "--target", point]
    words = ["mount", *(["-o", ",".join(options)] if options else [])]
    return [*words, *(["-t", fstype] if fstype else []), device, point]
