"""The part of catena that runs on a host, as one file named by its hash, and how it is started.

It holds what needs the standard library alone, and PyYAML's Python part for what writes YAML there
(`file.serialize`, static grains): loaded when it is used, never before.
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

#: Folders that travel whole.
WHOLE = ("core", "modules", "runtime", "states")
#: Of the others, what a host needs.
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
#: Third-party, pure Python.
FOREIGN = ("yaml",)

_MOMENT = (2000, 1, 1, 0, 0, 0)


class AnyBundle(ABC):
    """The program for hosts, as far as a visit needs it."""

    #: Its hash, hex.
    sha256: str

    @abstractmethod
    def supply(self) -> bytes:
        """Return the bundle as it travels."""

    def argv(self, python: str, room: str) -> list[str]:
        """Return what starts the program on a host, for `Connection.open_channel`.

        Args:
            python: path of its interpreter.
            room: the private folder there; made if it is missing.
        """
        return [python, "-I", "-c", bootstrap(), room, self.sha256]


@dataclass(frozen=True)
class Bundle(AnyBundle):
    """The program for hosts, here."""

    #: A zip archive that Python imports from; its entries are not compressed.
    data: bytes
    #: Its hash, hex.
    sha256: str

    def supply(self) -> bytes:
        """Return the bundle as it travels."""
        return zlib.compress(self.data, 6)


@cache
def bundle() -> Bundle:
    """Return the bundle of this catena; the same files make the same bytes."""
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
    """Yield (name in the archive, file) of all that the bundle is made of."""
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
