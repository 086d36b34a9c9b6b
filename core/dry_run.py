"""Test mode below the states: whatever one of them would change, the interpreter refuses.

A state function asks `context.test` itself and answers what it would do. One that forgets to, or
asks too late, must not change a host all the same. While a built-in state function runs in test
mode, an audit hook (PEP 578) refuses every file that it would write, every command that it would
start and every variable that it would set; `Context.call` refuses functions that are not marked
as reading. No state and no module can go past the hook by forgetting an argument.

The hook watches the thread that entered `refusing_changes`, and is installed on its first use: a
run that may change its host pays nothing for it.
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

#: Audit event of a change that Python itself does not report: raised by `announce`.
CHANGE = "catena.change"
#: Devices that take everything and keep nothing.
_NOWHERE = ("/dev/null", "/dev/tty")
#: Compiled modules are kept in folders of this name.
_COMPILED = "__pycache__"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: A file without a name; giving it one is another event.
_NAMELESS = getattr(os, "O_TMPFILE", 0)


class TestModeError(CatenaError):
    """A state tried to change its host in test mode.

    Args:
        what: the change, as "write /etc/motd".
    """

    __test__ = False  # no test case, whatever its name begins with

    def __init__(self, what: str) -> None:
        super().__init__(
            f"test mode refused to {what}; nothing was changed. This state acts without asking "
            "for test mode: that is an error of catena, please report it"
        )
        self.what = what


@dataclass(frozen=True)
class _Guard:
    """What is refused in a thread."""

    #: Real paths of files and folders that the agent writes for itself: cache, log.
    own: Tuple[str, ...]
    #: Commands may be started: they only look.
    commands: bool = False
    #: Real paths of temporary files and folders that were made under this guard.
    made: Set[str] = field(default_factory=set)

    def spares(self, place: str) -> bool:
        """Return whether a file may be changed."""
        if place.startswith("/proc/self/"):
            return True
        folder = os.path.dirname(place)  # noqa: PTH120
        if _COMPILED in (os.path.basename(place), os.path.basename(folder)):  # noqa: PTH119
            return True
        return any(place == one or place.startswith(f"{one}/") for one in (*self.own, *self.made))


_GUARD: ContextVar[Optional[_Guard]] = ContextVar("catena_dry_run", default=None)


def is_refusing() -> bool:
    """Return whether this thread may change nothing and has not said that it only looks."""
    guard = _GUARD.get()
    return guard is not None and not guard.commands


def announce(what: str) -> None:
    """Say that a change comes of which the interpreter does not tell its audit hooks.

    Args:
        what: the change, as "make the device /dev/x".

    Raises:
        TestModeError: a state that may change nothing would make it.
    """
    sys.audit(CHANGE, what)


@contextmanager
def refusing_changes(own: Iterable[str] = ()) -> Iterator[None]:
    """Refuse changes of this host in the calling thread until the block ends.

    Args:
        own: files and folders that the agent itself writes.
    """
    _install()
    places = tuple(os.path.realpath(one) for one in own if one)
    token = _GUARD.set(_Guard(places))
    try:
        yield
    finally:
        _GUARD.reset(token)


@contextmanager
def only_looking() -> Iterator[None]:
    """Let the commands of the block start although changes are refused: they change nothing."""
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
    """Refuse nothing in the block: it runs code of the site's own, which no guard can judge."""
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
    """Install the hook, once in a process: the interpreter can't remove one."""
    # Python finds it by writing a file there, which no event announces as a temporary one.
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
    """Return the real path of a file that an event names.

    Args:
        path: a path or an open descriptor.
        folder: descriptor of the folder that a relative path begins at, or -1.
        follow: the change goes through a link of that name, not to the link itself.
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
    # NamedTemporaryFile opens its folder in name; no system writes to one. What is written to a
    # device that keeps nothing changes nothing; its mode and owner are another matter.
    if place not in _NOWHERE and not os.path.isdir(place):  # noqa: PTH112
        _refuse_unless_spared(guard, "write", place)


def _changer(
    verb: str, path: int = 0, folder: Optional[int] = None, follow: bool = True
) -> Callable[[_Guard, str, Tuple[Any, ...]], None]:
    """Return the judge of an event; *path* and *folder* are places among its arguments."""

    def judge(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
        at = args[folder] if folder is not None and folder < len(args) else None
        _refuse_unless_spared(guard, verb, _place(args[path], at, follow))

    return judge


def _moved(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    source, target, source_folder, target_folder = args
    _refuse_unless_spared(guard, "move", _place(source, source_folder, follow=False))
    _refuse_unless_spared(guard, "replace", _place(target, target_folder, follow=False))


def _temporary(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    """Spare a file of the system's folder for them; one beside a managed file is its new self."""
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
    # The end of a command that only looked, at its deadline.
    if not guard.commands and args[1]:
        raise TestModeError(f"send signal {args[1]} to process {args[0]}")


def _varied(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    raise TestModeError(f"set the environment variable {os.fsdecode(args[0])}")


def _announced(guard: _Guard, event: str, args: Tuple[Any, ...]) -> None:
    raise TestModeError(str(args[0]))


#: Judges of audit events (the table in the Python library reference) by their names.
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
