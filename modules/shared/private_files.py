"""Temporary files that only one user can read, for programs that read secrets from files."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Mapping, Optional

from catena.modules.shared.command.options import find_identity


@contextmanager
def private_folder(files: Mapping[str, bytes], user: Optional[str]) -> Iterator[Path]:
    """Yield a temporary folder with files, which lasts as long as the block.

    Args:
        files: contents by path below the folder.
        user: owner of the folder and the files, nobody else can read them; default: the user of
            this process.

    Raises:
        CommandExecutionError: there is no such user.
    """
    identity = find_identity(user) if user else None
    folder = Path(tempfile.mkdtemp(prefix="catena-"))
    try:
        for name, data in files.items():
            _write(folder / name, data)
        if identity is not None:
            # Nobody else can enter the folder before its owner changes, so no link can be there.
            for above, folders, names in os.walk(folder, topdown=False):
                for name in (*folders, *names):
                    os.chown(Path(above, name), identity.uid, identity.gid)
            os.chown(folder, identity.uid, identity.gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
