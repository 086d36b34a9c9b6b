"""Worker processes for hosts: each works on one host at a time, in its main thread.

The time limit of a template works in a main thread only, and threads of one process would compile
for all hosts on one core. A process makes the whole visit (connection, compilation, run), so no
part of it has to be transferred. It inherits its input, secrets included, when it is forked, and
sends its results over a socket as plain values.
"""

from __future__ import annotations

import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
from contextlib import nullcontext
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from catena.cli.ssh_tasks import Answer, Task
from catena.core.custom_faults import error_line
from catena.core.errors import CatenaError, UnreachableError
from catena.runtime.push import values
from catena.transport.framing import FrameReader, frame

#: Maximum bytes of one message; an answer is a return, which has its own limit.
_LIMIT = 256 * 1024 * 1024
_PIECE = 1 << 20
#: prctl(2): signal to receive when the parent process ends.
_PR_SET_PDEATHSIG = 1

#: Result of a task: its answer, or its error.
Result = Union[Answer, Exception, None]
#: Receives a host and its current step.
Say = Callable[[str, str], None]


class HostError(CatenaError):
    """An error in a worker process, reconstructed from its text and exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class HostWorkers:
    """A fixed number of processes, forked by the constructor; a context manager that ends them.

    Args:
        tasks: the work.
        count: number of processes.
        still: held while a process is forked to replace one that died; nothing may draw then.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        count: int,
        still: Callable[[], ContextManager[None]] = nullcontext,
    ) -> None:
        self._tasks = tasks
        self._still = still
        self._selector = selectors.DefaultSelector()
        self._readers: Dict[socket.socket, FrameReader] = {}
        self._pids: List[int] = []
        # Exempt existing objects from collection, which would copy their pages in every child.
        gc.freeze()
        for _ in range(count):
            self._fork()

    def run(self, say: Say) -> Iterator[Tuple[Task, Result]]:
        """Yield each task with its result, in the order in which they end."""
        waiting = iter(self._tasks)
        under_way = {link: self._given(link, waiting) for link in self._readers}
        while any(under_way.values()):
            for key, _ in self._selector.select():
                link = key.fileobj
                assert isinstance(link, socket.socket)
                task = under_way[link]
                data = _received(link)
                for message in map(values.loads, self._readers[link].feed(data)):
                    assert task is not None
                    if "say" in message:
                        say(task.host, message["say"])
                    else:
                        yield task, _result(message)
                        task = under_way[link] = self._given(link, waiting)
                if not data:
                    self._forget(link)
                    del under_way[link]
                    if task is not None:
                        yield task, HostError(f"{task.host}: the process of its visit ended", 1)
                    with self._still():
                        fresh = self._fork()
                    under_way[fresh] = self._given(fresh, waiting)

    def _given(self, link: socket.socket, waiting: Iterator[Task]) -> Optional[Task]:
        """Send the next task to a process and return it; None if there is none left."""
        task = next(waiting, None)
        if task is not None:
            _send(link, {"task": self._tasks.index(task)})
        return task

    def _fork(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _work(self._tasks, theirs, parent)
        theirs.close()
        self._pids.append(pid)
        self._readers[ours] = FrameReader(_LIMIT)
        self._selector.register(ours, selectors.EVENT_READ)
        return ours

    def _forget(self, link: socket.socket) -> None:
        self._selector.unregister(link)
        del self._readers[link]
        link.close()

    def __enter__(self) -> HostWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        for link in list(self._readers):
            self._forget(link)
        for pid in self._pids:
            # Runs on hosts do not need these processes, and finished ones only wait for work.
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            os.waitpid(pid, 0)


def _work(tasks: Sequence[Task], link: socket.socket, parent: int) -> NoReturn:
    """Run as one of the worker processes."""
    try:
        # Ctrl-C is for the parent command, which ends its workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        reader = FrameReader(_LIMIT)
        while os.getppid() == parent:
            data = _received(link)
            if not data:
                break
            for message in map(values.loads, reader.feed(data)):
                _send(link, _done(tasks[message["task"]], link))
    finally:
        sys.stderr.flush()
        os._exit(0)


def _done(task: Task, link: socket.socket) -> Mapping[str, Any]:
    """Run a task; return the message with its result."""

    def watch(phase: Any, text: str) -> None:
        _send(link, {"say": f"{phase.value}: {text}" if text else str(phase.value)})

    try:
        answer = task.work(watch)
    except Exception as error:  # noqa: BLE001  # the other side shows it, whatever it is
        return {"error": _error_fields(error)}
    if answer is not None and "trouble" in answer:
        answer = {**answer, "trouble": _error_fields(answer["trouble"])}
    return {"answer": None if answer is None else dict(answer)}


def _error_fields(error: Exception) -> List[Any]:
    if not isinstance(error, CatenaError):
        return [error_line(error), 1, False]
    return [str(error), error.exit_code, isinstance(error, UnreachableError)]


def _result(message: Mapping[str, Any]) -> Result:
    if "error" in message:
        return _error(message["error"])
    answer: Optional[Dict[str, Any]] = message["answer"]
    if answer is not None and "trouble" in answer:
        answer["trouble"] = _error(answer["trouble"])
    return answer


def _error(data: Sequence[Any]) -> Exception:
    text, code, unreached = data
    return UnreachableError(text) if unreached else HostError(text, code)


def _send(link: socket.socket, message: Mapping[str, Any]) -> None:
    link.sendall(frame(values.dumps(message), _LIMIT))


def _received(link: socket.socket) -> bytes:
    try:
        return link.recv(_PIECE)
    except ConnectionResetError:
        return b""
