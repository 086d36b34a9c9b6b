"""Select files of the master's roots for a target: custom files and files named by states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs

from catena.core.context import FileClient, FileEntry
from catena.core.frozen import dataclass, field
from catena.runtime.custom_files import KINDS, SIZE_LIMIT
from catena.runtime.push.protocol import Tree
from catena.ssh.push.functions import addresses
from catena.ssh.push.program import Part
from catena.states.compiler.model import Low

#: Kinds of custom files for runs.
CUSTOM = ("grains", "modules", "renderers", "states", "utils", "serializers", "matchers", "sdb")
_SCHEME = "salt://"


@dataclass
class FileShipment:
    """Files to send to a target: trees of names, and their contents."""

    entries: dict[str, dict[str, FileEntry]] = field(default_factory=dict)
    folders: dict[str, set[str]] = field(default_factory=dict)
    #: Contents by SHA-256.
    parts: dict[str, Part] = field(default_factory=dict)

    def trees(self) -> tuple[Tree, ...]:
        """Return the names by environment."""
        named = sorted({*self.entries, *self.folders})
        return tuple(
            Tree(
                env,
                tuple(self.entries.get(env, {}).values()),
                tuple(sorted(self.folders.get(env, ()))),
            )
            for env in named
        )

    def add_file(self, files: FileClient, path: str, saltenv: str) -> bool:
        """Add one file; return whether it exists."""
        entry = files.entry(path, saltenv)
        local = files.fetch(path, saltenv) if entry else None
        if entry is None or local is None:
            return False
        self.entries.setdefault(saltenv, {})[entry.path] = entry
        self.parts[entry.sha256] = Part(entry.sha256, entry.size, local)
        return True

    def add_folder(self, files: FileClient, prefix: str, saltenv: str) -> None:
        """Add a folder recursively; a missing one is recorded as empty."""
        folder = prefix.strip("/")
        if not folder:
            return
        for entry in files.entries(saltenv, folder + "/"):
            self.add_file(files, entry.path, saltenv)
        known = self.folders.setdefault(saltenv, set())
        found = files.folders(saltenv, folder)
        known.update(found)

    def merged(self, other: FileShipment) -> FileShipment:
        """Return this shipment with *other*'s files too."""
        made = FileShipment()
        for one in (self, other):
            made.parts.update(one.parts)
            for env, entries in one.entries.items():
                made.entries.setdefault(env, {}).update(entries)
            for env, folders in one.folders.items():
                made.folders.setdefault(env, set()).update(folders)
        return made


def custom_files(files: FileClient, environments: Iterable[str]) -> FileShipment:
    """Return the custom files of some environments."""
    found = FileShipment()
    for saltenv in environments:
        for kind in CUSTOM:
            folder = KINDS[kind]
            for entry in files.entries(saltenv, folder + "/"):
                if entry.path.endswith(".py") and entry.size <= SIZE_LIMIT:
                    found.add_file(files, entry.path, saltenv)
            found.folders.setdefault(saltenv, set()).add(folder)
    return found


def referenced(files: FileClient, lows: Sequence[Low]) -> FileShipment:
    """Return the files and folders of the roots in any argument of states."""
    found = FileShipment()
    for low in lows:
        saltenv = str(low.keywords.get("saltenv") or low.args.get("saltenv") or low.env)
        for address in addresses([low.name, low.args, low.keywords]):
            add_address(found, files, address, saltenv)
    return found


def add_address(shipment: FileShipment, files: FileClient, address: str, saltenv: str) -> None:
    """Add the file or folder at an address, if there is one."""
    bare, _, query = address[len(_SCHEME) :].partition("?")
    env = parse_qs(query).get("saltenv", [saltenv])[0]
    path = bare.strip("/")
    if not shipment.add_file(files, path, env) and path:
        if path in files.folders(env, path):
            shipment.add_folder(files, path, env)
