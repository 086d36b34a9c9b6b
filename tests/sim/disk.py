"""A simulated disk that keeps only what was fsynced.

Files lie on the machine's own (memory) file system and are read and written by the product's own
calls; beside them a model knows which of it would be there after a power cut. What a cut may do:

- a file's content since its last fsync: all of it, a part of it, zeros in its place, or none;
- a folder's changes since its last fsync: any that do not build upon one that is lost;
- a rename is there as a whole or not at all.

`Tap` stands between the product and the operating system: it tells disks what is done to them,
and it is where a program dies in the midst of its work.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sim.tasks import Job, Killed, Program, Turn


@dataclass(eq=False)
class File:
    """One file: what is durable of it, and what it held when it left the visible tree."""

    durable: bytes = b""
    dirty: bool = True
    #: Content now, where no visible name has it any more.
    left: bytes | None = None
    target: str | None = None


@dataclass(eq=False)
class Folder:
    """One folder: the names that programs see, those that are durable, and what lies between."""

    seen: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[tuple[str, str, File | Folder | None]] = field(default_factory=list)

    def put(self, name: str, node: File | Folder) -> None:
        """A name appears, or stands for something else."""
        self.seen[name] = node
        self.changes.append(("", name, node))

    def drop(self, name: str) -> None:
        """A name goes."""
        if self.seen.pop(name, None) is not None:
            self.changes.append((name, "", None))

    def move(self, source: str, target: str) -> None:
        """A name becomes another one."""
        node = self.seen.pop(source)
        self.seen[target] = node
        self.changes.append((source, target, node))

    def sync(self) -> None:
        """Everything up to now is there after a cut."""
        self.durable = dict(self.seen)
        self.changes.clear()

    def after_cut(self, choose: Callable[[], bool]) -> dict[str, File | Folder]:
        """Return the names after a cut that keeps the changes that *choose* says."""
        names = dict(self.durable)
        lost: set[str] = set()
        for source, target, node in self.changes:
            touched = {name for name in (source, target) if name}
            if touched & lost or not choose():
                lost |= touched
                continue
            if source:
                names.pop(source, None)
            if target and node is not None:
                names[target] = node
        return names


class Disk:
    """One host's disk, below a folder.

    Args:
        root: an empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = f"{root}/"
        self.tree = Folder()
        #: Bytes that are free; None: enough.
        self.free: int | None = None

    def find(self, path: str) -> tuple[Folder, str]:
        """Return the folder that holds *path*, and its name there."""
        parts = path[len(self.prefix) :].split("/")
        folder = self.tree
        for depth, part in enumerate(parts[:-1], 1):
            node = folder.seen.get(part)
            if not isinstance(node, Folder):
                # Made past the tap.
                node = Folder()
                folder.put(part, node)
                assert (self.root / "/".join(parts[:depth])).is_dir(), path
            folder = node
        return folder, parts[-1]

    def node(self, path: str) -> File | Folder | None:
        """Return what *path* names."""
        if path + "/" == self.prefix:
            return self.tree
        folder, name = self.find(path)
        return folder.seen.get(name)

    def leave(self, path: str) -> None:
        """Keep the content of a file whose visible name goes: a cut may bring it back."""
        node = self.node(path)
        if isinstance(node, File) and node.target is None:
            if node.dirty:
                node.left = _read(path)
            if self.free is not None:
                self.free += _size(path)

    def sync(self, path: str) -> None:
        """fsync of a file or folder."""
        node = self.node(path)
        if node is None:
            self._notice(os.path.dirname(path), self.find(path)[0])  # noqa: PTH120
            node = self.node(path)
        if isinstance(node, Folder):
            self._notice(path, node)
            node.sync()
        elif isinstance(node, File):
            node.durable, node.dirty = _read(path), False

    def _notice(self, path: str, folder: Folder) -> None:
        """Take in what was made past the tap."""
        for entry in os.scandir(path):
            if entry.name not in folder.seen:
                is_folder = entry.is_dir(follow_symlinks=False)
                node: File | Folder = Folder() if is_folder else File()
                if entry.is_symlink():
                    node = File(dirty=False, target=os.readlink(entry.path))  # noqa: PTH115
                folder.put(entry.name, node)

    # -- the cut -------------------------------------------------------------------------------

    def sync_all(self) -> None:
        """A clean halt: everything is durable."""
        self.cut(random.Random(0), kept=1.0)

    def cut(self, rng: random.Random, kept: float | None = None) -> str:
        """Take the power away; return how much of what was not synced is kept, in words."""
        share = rng.choice((0.0, 0.0, 0.3, 0.6, 0.9, 1.0)) if kept is None else kept
        self._cut(str(self.root), self.tree, lambda: rng.random() < share, rng)
        return f"{share:.0%} of what was not synced is kept"

    def cut_by(self, oracle: Any) -> None:
        """Take the power away; *oracle* (`cuts.Oracle`) says what is kept."""
        self._cut(str(self.root), self.tree, oracle.choose, oracle)

    def _cut(
        self, path: str, folder: Folder, choose: Callable[[], bool], rng: random.Random
    ) -> None:
        self._notice(path, folder)
        for name, node in list(folder.seen.items()):
            there = f"{path}/{name}"
            if not os.path.lexists(there):
                folder.seen.pop(name)
            elif isinstance(node, File) and node.dirty and node.left is None:
                node.left = _read(there)
        before = dict(folder.seen)
        names = folder.after_cut(choose)
        for name in before:
            if names.get(name) is not before[name]:
                _remove(f"{path}/{name}")
        folder.seen = names
        folder.sync()
        for name, node in names.items():
            there = f"{path}/{name}"
            if isinstance(node, Folder):
                if before.get(name) is not node:
                    Path(there).mkdir(exist_ok=True)
                self._cut(there, node, choose, rng)
            else:
                _settle(node, there, before.get(name) is node, (choose, rng))


def _settle(
    node: File, path: str, is_there: bool, luck: tuple[Callable[[], bool], random.Random]
) -> None:
    """Decide what a file holds after a cut, and let it."""
    if node.target is not None:
        if not is_there:
            Path(path).symlink_to(node.target)
        return
    content = node.durable
    if node.dirty:
        content = torn(node.durable, node.left or b"", *luck)
    if node.dirty or not is_there:
        Path(path).write_bytes(content)
        Path(path).chmod(0o600)
    node.durable, node.dirty, node.left = content, False, None


def torn(old: bytes, new: bytes, choose: Callable[[], bool], rng: random.Random) -> bytes:
    """Return what a file may hold that held *old* durably and *new* at the cut."""
    if choose():
        return new
    common = old if new.startswith(old) else b""
    if old.startswith(new):
        # It was only made shorter: what is before the new end was durable and stays as it is.
        common = new
    length = rng.randint(len(common), max(len(common), len(new)))
    kept = new[:length]
    return rng.choice((old, kept, common + bytes(len(new) - len(common)), kept + b"\0" * 7))


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _remove(path: str) -> None:
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        Path(path).unlink()


# -- the tap -----------------------------------------------------------------------------------

_CALLS = (
    "open close write fsync fdatasync ftruncate rename replace unlink remove rmdir mkdir link "
    "symlink posix_fallocate"
).split()


#: Steps that make, change or remove a name.
_NAMING = frozenset(("open", "rename", "unlink", "rmdir", "mkdir", "link", "symlink"))


class Tap:
    """Replaces the calls of `os` by which the product changes disks, while it is open.

    Args:
        turn: who calls.
        note: told of each step: program, call, path.
    """

    def __init__(self, turn: Turn, note: Callable[[Program, str, str], None]) -> None:
        self._turn = turn
        self._note = note
        self._disks: list[Disk] = []
        self._real: dict[str, Any] = {name: getattr(os, name) for name in _CALLS}
        self._flock = fcntl.flock
        self._handles: dict[int, tuple[Disk, str]] = {}
        self._aside = False
        #: Calls that do nothing though they say that they did: for tests of the checker.
        self.skips: set[str] = set()
        #: Folders in which no name can be made, changed or removed.
        self.read_only: set[str] = set()

    def watch(self, disk: Disk) -> None:
        """Look after one more disk."""
        self._disks.append(disk)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Stand between the product and the operating system."""
        for name in _CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        fcntl.flock = self._lock
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)
            fcntl.flock = self._flock

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let calls pass unseen."""
        self._aside = True
        try:
            yield
        finally:
            self._aside = False

    def _place(self, path: Any, dir_fd: int | None = None) -> tuple[Disk | None, str]:
        text = os.fspath(path) if not isinstance(path, int) else ""
        if not isinstance(text, str) or self._aside:
            return None, ""
        if dir_fd is not None and not text.startswith("/"):
            text = f"{os.readlink(f'/proc/self/fd/{dir_fd}')}/{text}"  # noqa: PTH115
        for disk in self._disks:
            if text.startswith(disk.prefix) or text + "/" == disk.prefix:
                return disk, os.path.normpath(text) if "/../" in text else text
        return None, text

    def _step(self, call: str, path: str) -> None:
        """A program is about to change its disk: perhaps that is its end."""
        program = self._turn.running
        if program is None:
            return
        if program.dead:
            raise Killed
        self._note(program, call, path)
        if program.steps_left is not None:
            program.steps_left -= 1
            if program.steps_left < 0:
                program.steps_left = None
                program.fate()
                if program.dead:
                    raise Killed
        if call in _NAMING and any(path.startswith(f"{each}/") for each in self.read_only):
            raise OSError(errno.EROFS, "Read-only file system", path)

    def _need(self, disk: Disk, size: int, path: str) -> None:
        if disk.free is not None:
            if size > disk.free:
                raise OSError(errno.ENOSPC, "No space left on device", path)
            disk.free -= size

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        disk, text = self._place(path, dir_fd)
        if disk is None:
            handle = int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
            self._handles.pop(handle, None)
            return handle
        changes = bool(flags & (os.O_CREAT | os.O_TRUNC))
        if changes:
            self._step("open", text)
        fresh = bool(flags & os.O_CREAT) and not os.path.lexists(text)
        if fresh:
            self._need(disk, 64, text)
        handle = int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY):
            self._handles[handle] = disk, text
        else:
            # Its number may have been another file's, which was closed past the tap.
            self._handles.pop(handle, None)
        if changes:
            folder, name = disk.find(text)
            node = folder.seen.get(name)
            if node is None or fresh:
                folder.put(name, File())
            elif isinstance(node, File) and flags & os.O_TRUNC:
                node.dirty = True
        return handle

    def _close(self, handle: int) -> None:
        self._handles.pop(handle, None)
        self._real["close"](handle)

    def _write(self, handle: int, data: Any) -> int:
        found = self._handles.get(handle)
        if found is None:
            return int(self._real["write"](handle, data))
        disk, path = found
        self._step("write", path)
        part = bytes(data)
        if disk.free is not None and len(part) > disk.free:
            part = part[: disk.free]
            if not part:
                raise OSError(errno.ENOSPC, "No space left on device", path)
        self._need(disk, len(part), path)
        self._dirty(disk, path)
        return int(self._real["write"](handle, part))

    def _dirty(self, disk: Disk, path: str) -> None:
        node = disk.node(path)
        if isinstance(node, File):
            node.dirty = True

    def _fsync(self, handle: int) -> None:
        found = self._handles.get(handle)
        if found is None:
            self._real["fsync"](handle)
            return
        disk, path = found
        self._step("fsync", path)
        folder = Path(path).is_dir()
        if ("sync_folder" if folder else "sync_file") not in self.skips:
            disk.sync(path)
        self._step("fsynced", path)

    _fdatasync = _fsync

    def _ftruncate(self, handle: int, length: int) -> None:
        found = self._handles.get(handle)
        if found is not None:
            self._step("ftruncate", found[1])
            self._dirty(*found)
        self._real["ftruncate"](handle, length)

    def _posix_fallocate(self, handle: int, offset: int, length: int) -> None:
        found = self._handles.get(handle)
        if found is not None:
            self._step("fallocate", found[1])
            self._need(found[0], length, found[1])
            self._dirty(*found)
        self._real["posix_fallocate"](handle, offset, length)

    def _rename(
        self, source: Any, target: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None
    ) -> None:
        disk, old = self._place(source, src_dir_fd)
        _, new = self._place(target, dst_dir_fd)
        if disk is None:
            self._real["rename"](source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        self._step("rename", f"{old} -> {Path(new).name}")
        if os.path.lexists(old) and os.path.lexists(new):
            disk.leave(new)
        self._real["rename"](old, new)
        here, name = disk.find(old)
        there, other = disk.find(new)
        if name not in here.seen:
            here.put(name, Folder() if Path(new).is_dir() else File())
        if here is there:
            here.move(name, other)
        else:
            there.put(other, here.seen[name])
            here.drop(name)

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        disk, text = self._place(path, dir_fd)
        if disk is None:
            self._real["unlink"](path, dir_fd=dir_fd)
            return
        self._step("unlink", text)
        if os.path.lexists(text):
            disk.leave(text)
        self._real["unlink"](text)
        folder, name = disk.find(text)
        folder.drop(name)

    _remove = _unlink

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        disk, text = self._place(path, dir_fd)
        if disk is not None:
            self._step("rmdir", text)
        self._real["rmdir"](path, dir_fd=dir_fd)
        if disk is not None:
            folder, name = disk.find(text)
            folder.drop(name)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        disk, text = self._place(path, dir_fd)
        if disk is not None:
            self._step("mkdir", text)
            if not os.path.lexists(text):
                self._need(disk, 64, text)
        self._real["mkdir"](path, mode, dir_fd=dir_fd)
        if disk is not None:
            folder, name = disk.find(text)
            folder.put(name, Folder())

    def _link(self, source: Any, target: Any, **more: Any) -> None:
        disk, new = self._place(target)
        if disk is not None:
            self._step("link", new)
        self._real["link"](source, target, **more)
        if disk is not None:
            here, name = disk.find(os.fspath(source))
            there, other = disk.find(new)
            there.put(other, here.seen.setdefault(name, File()))

    def _symlink(
        self, target: Any, path: Any, target_is_directory: bool = False, **more: Any
    ) -> None:
        disk, text = self._place(path)
        if disk is not None:
            self._step("symlink", text)
        self._real["symlink"](target, path, target_is_directory, **more)
        if disk is not None:
            folder, name = disk.find(text)
            folder.put(name, File(dirty=False, target=os.fspath(target)))

    def _lock(self, handle: Any, operation: int) -> None:
        """flock that waits in virtual time."""
        job = self._turn.running
        while True:
            try:
                self._flock(handle, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if operation & fcntl.LOCK_NB or not isinstance(job, Job):
                    raise
                job.sleep(0.05)
                continue
            return
