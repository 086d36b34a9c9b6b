"""The part of catena that runs on a host: one file named by its hash, and its start command.

It contains modules that need only the standard library, and the pure Python part of PyYAML, which
is imported only to write YAML (`file.serialize`, static grains).
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import catena
from catena.core.frozen import dataclass

#: Folders that are included completely.
WHOLE = ("core", "modules", "runtime", "states")
#: By other folder: the files that a host needs.
PARTLY = {
    "fileserver": ("__init__", "index", "manifest", "remote", "roots", "transfers"),
    "renderers": (
        "__init__",
        "calls",
        "config_files",
        "filters_host",
        "jinja_options",
        "pipeline",
        "plain",
        "source",
        "templates",
        "yaml",
        "yaml_lines",
        "yaml_builder",
        "yaml_faults",
        "yaml_parser",
        "yaml_writer",
    ),
    "transport": ("__init__", "framing", "keys", "messages/__init__", "messages/files"),
}
#: Third-party packages in pure Python.
FOREIGN = ("yaml",)

_MOMENT = (2000, 1, 1, 0, 0, 0)


class AnyBundle(ABC):
    """Interface of the program for hosts, as a visit uses it."""

    #: SHA-256 of the bundle in hex.
    sha256: str

    @abstractmethod
    def supply(self) -> bytes:
        """Return the compressed bundle for the transfer."""

    def argv(self, python: str, room: str) -> list[str]:
        """Return the command that starts the program, for `Connection.open_channel`.

        Args:
            python: path of the host's interpreter.
            room: the private folder on the host; created if it is missing.
        """
        return [python, "-I", "-c", bootstrap(), room, self.sha256]


@dataclass(frozen=True)
class Bundle(AnyBundle):
    """The program for hosts, in memory."""

    #: An uncompressed zip archive from which Python imports.
    data: bytes
    #: SHA-256 of the bundle in hex.
    sha256: str

    def supply(self) -> bytes:
        """Return the compressed bundle for the transfer."""
        return zlib.compress(self.data, 6)


@cache
def bundle() -> Bundle:
    """Return the bundle of this catena; the same files give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, path in sorted(files()):
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), path.read_bytes())
    data = made.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())


@cache
def bootstrap() -> str:
    """Return the text of `ssh/push/bootstrap.py`."""
    return Path(__file__).with_name("bootstrap.py").read_text("utf-8")


def files() -> Iterator[tuple[str, Path]]:
    """Yield (name in the archive, file) of the bundle's contents."""
    home = Path(catena.__file__).parent
    yield "catena/__init__.py", home / "__init__.py"
    for folder in WHOLE:
        for path in (home / folder).rglob("*.py"):
            yield f"catena/{folder}/{path.relative_to(home / folder).as_posix()}", path
    for folder, names in PARTLY.items():
        for name in names:
            yield f"catena/{folder}/{name}.py", home / folder / f"{name}.py"
    for package in FOREIGN:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        for path in Path(spec.origin).parent.rglob("*.py"):
            yield f"{package}/{path.relative_to(Path(spec.origin).parent).as_posix()}", path
