"""file.*: states of files, folders and links."""

from __future__ import annotations

from catena.states.file.additions import accumulated_, append, prepend
from catena.states.file.cached import cached, not_cached
from catena.states.file.decode import decode
from catena.states.file.directory import directory
from catena.states.file.edits import blockreplace, comment, line, replace_, uncomment
from catena.states.file.hardlink import hardlink
from catena.states.file.keyvalue import keyvalue
from catena.states.file.managed import managed
from catena.states.file.nodes import mknod
from catena.states.file.patch import patch
from catena.states.file.paths import absent, copy_, exists, missing, pruned, rename, touch
from catena.states.file.recurse import recurse
from catena.states.file.retention import retention_schedule
from catena.states.file.serialize import serialize
from catena.states.file.symlink import symlink
from catena.states.file.tidied import tidied

__all__ = [
    "absent",
    "accumulated_",
    "append",
    "blockreplace",
    "cached",
    "comment",
    "copy_",
    "decode",
    "directory",
    "exists",
    "hardlink",
    "keyvalue",
    "line",
    "managed",
    "missing",
    "mknod",
    "not_cached",
    "patch",
    "prepend",
    "pruned",
    "recurse",
    "rename",
    "replace_",
    "retention_schedule",
    "serialize",
    "symlink",
    "tidied",
    "touch",
    "uncomment",
]
