"""Sent to a host as the text of `python3 -I -c`: find or fetch, check and start the bundle.

This file runs on the host before the rest of catena. It uses only the standard library and the
syntax of Python 3.6, so that an old interpreter can report that it is too old. Arguments: the
private folder, the bundle's hash. It starts a channel as in `core.framing`: it reads the nonce and
requests the bundle if that is missing or damaged. The program sends "ready".
"""

import gc
import hashlib
import os
import stat
import sys
import zlib
from importlib._bootstrap_external import MAGIC_NUMBER
from typing import NoReturn

LIMIT = 64 * 1024 * 1024


def fail(text: str) -> NoReturn:
    """Exit with one line on stderr."""
    sys.stderr.write("catena: " + text + "\n")
    sys.stderr.flush()
    os._exit(1)


def check(folder: str) -> None:
    """Refuse a folder that other users can access."""
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        fail(folder + ": not a folder")
    if found.st_uid != os.geteuid():
        fail("%s: belongs to another user (uid %d)" % (folder, found.st_uid))
    if found.st_mode & 0o022:
        fail("%s: others may write to it (mode %o)" % (folder, found.st_mode & 0o7777))


def check_way(folder: str) -> None:
    """Refuse a folder, existing or not, that another user could replace."""
    above = os.path.dirname(folder)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    while True:
        found = os.stat(above)
        own_group = not found.st_mode & 0o002 and found.st_gid == os.getegid() != 0
        if found.st_uid not in (0, os.geteuid()):
            fail("%s: belongs to another user (uid %d)" % (above, found.st_uid))
        if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX and not own_group:
            fail("%s: others may write to it (mode %o)" % (above, found.st_mode & 0o7777))
        if above == "/":
            return
        above = os.path.dirname(above)


def make(folder: str) -> str:
    """Create a private folder and its parents."""
    if not os.path.lexists(folder):
        above = os.path.dirname(folder)
        if not os.path.isdir(above):
            make(above)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
    return folder


def leave(*folders: str) -> None:
    """Remove empty folders."""
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            return


def line() -> str:
    """Return one line of stdin without reading beyond it."""
    text = b""
    while len(text) < 200:
        sign = os.read(0, 1)
        if not sign or sign == b"\n":
            return text.decode("ascii", "replace").strip()
        text += sign
    return ""


def fetch(out: int, nonce: str, wanted: str) -> bytes:
    """Request the bundle from the master and return it."""
    os.write(out, ("catena-need " + nonce + "\n").encode("ascii"))
    said = line()
    if not said.isdigit() or int(said) > LIMIT:
        fail("the bundle did not arrive")
    size, parts = int(said), []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            fail("the bundle did not arrive whole")
        parts.append(part)
        size -= len(part)
    unzip = zlib.decompressobj()
    data = unzip.decompress(b"".join(parts), LIMIT)
    if hashlib.sha256(data).hexdigest() != wanted:
        fail("the bundle that arrived is not the one that was announced")
    return data


def held(path: str, wanted: str) -> bool:
    """Return whether the complete bundle is stored here."""
    try:
        with open(path, "rb") as stream:
            # read(LIMIT) would allocate that much memory, which takes longer than the hash.
            size = min(os.fstat(stream.fileno()).st_size, LIMIT)
            return hashlib.sha256(stream.read(size)).hexdigest() == wanted
    except OSError:
        return False


def compiled(folder: str, wanted: str) -> str:
    """Return the path of the bundle as compiled here (`runtime.push.compiled`), or ""."""
    start = wanted + "." + MAGIC_NUMBER.hex() + "."
    for name in os.listdir(folder):
        if name.startswith(start) and held(os.path.join(folder, name), name.split(".")[2]):
            return os.path.join(folder, name)
    return ""


def install(path: str, data: bytes) -> None:
    """Write the bundle atomically."""
    partial = "%s.%d.new" % (path, os.getpid())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        handle = os.open(partial, flags, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(partial, path)
    except OSError:
        if os.path.lexists(partial):
            os.unlink(partial)
        raise


def main(room: str, wanted: str) -> None:
    """Start the program."""
    if sys.version_info < (3, 9):
        fail("this is Python %d.%d; 3.9 is the oldest that works" % sys.version_info[:2])
    nonce = line()
    out = os.dup(1)
    os.dup2(2, 1)
    os.umask(0o077)
    path = os.path.join(room, "bundles", wanted + ".zip")
    try:
        check_way(room)
        make(room)
        check(room)
        make(os.path.dirname(path))
        ready = compiled(os.path.dirname(path), wanted)
        again = bool(ready) or held(path, wanted)
        if not again:
            install(path, fetch(out, nonce, wanted))
        os.utime(ready or path)
    except OSError as error:
        leave(os.path.dirname(path), room)
        fail("%s: %s" % (error.filename or room, error.strerror or error))
    sys.path.insert(0, ready or path)
    # Imported objects live to the end; the program enables the collector again.
    gc.disable()
    from catena.runtime.push import serve

    # Compiling takes a second, so it happens at the end of the second visit.
    serve.main(room, nonce, 0, out, path if again and not ready else "")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
