"""Test mode below the states: the interpreter refuses whatever a state would change.

A state function checks `context.test` itself and reports what it would do. A state that forgets
the check, or checks too late, must still not change a host. While a built-in state function runs
in test mode, an audit hook (PEP 578) refuses every file write, every command and every change of
an environment variable; `Context.call` refuses functions that are not marked as reading. No state
and no module can bypass the hook by forgetting an argument.

The hook watches the thread that entered `refusing_changes`. It is installed on its first use, so
that a run which may change its host does not pay for it.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Set, Tuple

from catena.core.errors import CatenaError
from catena.core.frozen import dataclass, field, replace

#: Audit event of a change for which Python has no audit event; raised by `announce`.
CHANGE = "catena.change"
#: Devices that discard what is written.
_NOWHERE = ("/dev/null", "/dev/tty")
#: Name of the folders in which compiled modules are stored.
_COMPILED = "__pycache__"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Flag of an unnamed file; linking it to a name is a separate event.
_NAMELESS = getattr(os, "O_TMPFILE", 0)


class TestModeError(CatenaError):
    """A state tried to change its host in test mode.

    Args:
        what: the change, as "write /etc/motd".
    """

    __test__ = False  # pytest must not collect it as a test case

    def __init__(self, what: str) -> None:
        guard = _GUARD.get()
        if guard is not None and guard.strict:
            super().__init__(f"a test must not change this host: refused to {what}")
        else:
            super().__init__(
                f"test mode refused to {what}; nothing was changed. This state acts without "
                "asking for test mode: that is an error of catena, please report it"
            )
        self.what = what


@dataclass(frozen=True)
class _Guard:
    """What a thread may not change."""

    #: Real paths of files and folders that the agent itself writes: cache, log.
    own: Tuple[str, ...]
    #: Commands may be started, because they only read.
    commands: bool = False
    #: Custom files may change nothing either: they are tested, not used.
    strict: bool = False
    #: Real paths of temporary files and folders created under this guard.
    made: Set[str] = field(default_factory=set)

    def spares(self, place: str) -> bool:
        """Return whether the file *place* may be changed."""
        if place.startswith("/proc/self/"):
            return True
        folder = os.path.dirname(place)  # noqa: PTH120
        if _COMPILED in (os.path.basename(place), os.path.basename(folder)):  # noqa: PTH119
            return True
        return any(place == one or place.startswith(f"{one}/") for one in (*self.own, *self.made))


_GUARD: ContextVar[Optional[_Guard]] = ContextVar("catena_dry_run", default=None)


def is_refusing() -> bool:
    """Return whether this thread may change nothing and is outside `only_looking`."""
    guard = _GUARD.get()
    return guard is not None and not guard.commands


def announce(what: str) -> None:
    """Report a change that is about to happen and for which Python has no audit event.

    Args:
        what: the change, as "make the device /dev/x".

    Raises:
        TestModeError: the calling state may not change anything.
    """
    sys.audit(CHANGE, what)


@contextmanager
def refusing_changes(own: Iterable[str] = (), strict: bool = False) -> Iterator[None]:
    """Refuse changes of this host in the calling thread until the block ends.

    Args:
        own: files and folders that the agent itself writes.
        strict: refuse changes by custom files too (`unguarded` has no effect inside).
    """
    _install()
    places = tuple(os.path.realpath(one) for one in own if one)
    outer = _GUARD.get()
    is_strict = strict or (outer is not None and outer.strict)
    token = _GUARD.set(_Guard(places, strict=is_strict))
    try:
        yield
    finally:
        _GUARD.reset(token)


@contextmanager
def only_looking() -> Iterator[None]:
    """Permit commands within the block although changes are refused, since they only read."""
    guard = _GUARD.get()
    if guard is None or guard.commands:
        yield
        return
    token = _GUARD.set(replace(guard, commands=True))
    try:
        yield
    finally:
        _GUARD.reset(token)


@contextmanager
def unguarded() -> Iterator[None]:
    """Permit everything within the block: no guard can judge the site's own code in it.

    A strict guard stays.
    """
    guard = _GUARD.get()
    if guard is not None and guard.strict:
        yield
        return
    token = _GUARD.set(None)
    try:
        yield
    finally:
        _GUARD.reset(token)


@cache
def _temporary_folder() -> str:
    import tempfile

    return os.path.realpath(tempfile.gettempdir())


@cache
def _install() -> None:
    """Install the hook once per process, since it cannot be removed."""
    # Python tests the folder by writing a file that no event marks as temporary.
    _temporary_folder()
    judges, current = _JUDGES, _GUARD

    def hook(event: str, args: Tuple[Any, ...]) -> None:
        judge = judges.get(event)
        if judge is None:
            return
        guard = current.get()
        if guard is not None:
            judge(guard, event, args)

    sys.addaudithook(hook)


def _place(path: Any, folder: Any = None, follow: bool = True) -> str:
    """Return the real path of a file named by an event.

    Args:
        path: a path or an open descriptor.
        folder: descriptor of the folder to which a relative path refers, or -1.
        follow: whether the change follows a link of that name.
    """
    if isinstance(path, int):
        return os.path.realpath(f"/proc/self/fd/{path}")
    text = os.fsdecode(path)
    if isinstance(folder, int) and folder >= 0:
        text = os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), text)  # noqa: PTH118
    if follow:
        return os.path.realpath(text)
    above, name = os.path.split(os.path.abspath(text))  # noqa: PTH100
    return os.path.join(os.path.realpath(above), name)  # noqa: PTH118


def _refuse_unless_spared(guard: _Guard, verb: str, place: str) -> None:
    if not guard.spares(place):
        raise TestModeError(f"{verb} {place}")


def _opened(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    path, _, flags = args
    if not isinstance(flags, int) or not flags & _WRITES or isinstance(path, int):
        return
    if _NAMELESS and flags & _NAMELESS == _NAMELESS:
        return
    place = _place(path)
    # NamedTemporaryFile opens its folder by name, but a folder cannot be written. Data written
    # to a discarding device changes nothing; only its mode and owner matter.
    if place not in _NOWHERE and not os.path.isdir(place):  # noqa: PTH112
        _refuse_unless_spared(guard, "write", place)


def _changer(
    verb: str, path: int = 0, folder: Optional[int] = None, follow: bool = True
) -> Callable[[_Guard, str, Tuple[Any, ...]], None]:
    """Return the judge of an event; *path* and *folder* are indexes of its arguments."""

    def judge(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
        at = args[folder] if folder is not None and folder < len(args) else None
        _refuse_unless_spared(guard, verb, _place(args[path], at, follow))

    return judge


def _moved(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    source, target, source_folder, target_folder = args
    _refuse_unless_spared(guard, "move", _place(source, source_folder, follow=False))
    _refuse_unless_spared(guard, "replace", _place(target, target_folder, follow=False))


def _temporary(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    """Permit a temporary file, and one beside a managed file, which becomes its new content."""
    place = _place(args[0])
    if os.path.dirname(place) == _temporary_folder() or guard.spares(place):  # noqa: PTH120
        guard.made.add(place)


def _started(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    if guard.commands:
        return
    words = args[1] if event == "subprocess.Popen" else args[:1]
    parts = [words] if isinstance(words, (str, bytes)) else words
    line = " ".join(os.fsdecode(one) for one in parts)
    raise TestModeError(f"run the command {line[:200]!r}")


def _forked(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    if not guard.commands:
        raise TestModeError("start a process")


def _signalled(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    # Signals to a command that only reads are permitted, to stop it at its deadline.
    if not guard.commands and args[1]:
        raise TestModeError(f"send signal {args[1]} to process {args[0]}")


def _varied(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    raise TestModeError(f"set the environment variable {os.fsdecode(args[0])}")


def _announced(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    raise TestModeError(str(args[0]))


#: Functions that judge an audit event, by event name (see the table in Python's documentation).
_JUDGES: Dict[str, Callable[[_Guard, str, Tuple[Any, ...]], None]] = {
    "open": _opened,
    "os.chflags": _changer("set the flags of"),
    "os.chmod": _changer("set the mode of", folder=2),
    "os.chown": _changer("set the owner of", folder=3),
    "os.link": _changer("make the link", path=1, folder=3, follow=False),
    "os.mkdir": _changer("make the folder", folder=2, follow=False),
    "os.remove": _changer("remove", folder=1, follow=False),
    "os.removexattr": _changer("change the attributes of"),
    "os.rename": _moved,
    "os.rmdir": _changer("remove", folder=1, follow=False),
    "os.setxattr": _changer("change the attributes of"),
    "os.symlink": _changer("make the link", path=1, folder=2, follow=False),
    "os.truncate": _changer("truncate"),
    "os.utime": _changer("set the times of", folder=3),
    "tempfile.mkdtemp": _temporary,
    "tempfile.mkstemp": _temporary,
    "subprocess.Popen": _started,
    "os.exec": _forked,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.posix_spawn": _started,
    "os.spawn": _forked,
    "os.system": _forked,
    "os.kill": _signalled,
    "os.killpg": _signalled,
    "os.putenv": _varied,
    "os.unsetenv": _varied,
    CHANGE: _announced,
}
