"""The program on a host: answers the master's questions over stdin and stdout of one SSH channel.

The bootstrap of `catena.ssh.push.bundle` starts it after reading the nonce and adding the bundle
to sys.path. It answers one question at a time. The end of the channel is noticed even while a call
or a poll waits; it ends the program with its child processes, except detached runs.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import pwd
import select
import sys
import time
import zlib
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Mapping, NoReturn, Tuple, Type

import catena
from catena.core import failpoints
from catena.core.errors import CatenaError, LimitError
from catena.core.files import read_limited, write_all
from catena.core.framing import READY, Framer, marker
from catena.core.frozen import replace
from catena.runtime.garbage import collect_rarely
from catena.runtime.push import protocol as p
from catena.runtime.push import runner, runs
from catena.runtime.push.caller import CallProcess, ChannelEndedError
from catena.runtime.push.files import ShippedFiles
from catena.runtime.push.host_folder import Room, machine_id, trouble_of
from catena.runtime.push.incoming import Incoming
from catena.runtime.push.outcome import boot_id
from catena.runtime.push.protocol import ProgramError, RunPhase, Trouble
from catena.runtime.push.runs import RunFolder, StepReader
from catena.runtime.resume_file import NAME as CHAIN_FILE

#: Seconds between a waiting poll's checks for a step.
LOOK_SECONDS = 0.01
#: Seconds for which `cancel` waits for the run to end.
CANCEL_SECONDS = 5.0
#: Seconds for which `ack` waits until the runner has read the result.
READ_SECONDS = 5.0
DAY_SECONDS = 24 * 3600.0
#: Seconds after which an unclaimed run is not going to start.
NEVER_SECONDS = 60.0

#: An answer and its blob.
Answer = Tuple[Any, bytes]


class Input:
    """The channel's input as messages; a question may arrive while another one is answered."""

    def __init__(self, handle: int, framer: Framer) -> None:
        self.handle = handle
        self._framer = framer
        self._messages: Deque[Tuple[Dict[str, Any], bytes]] = deque()

    def hear(self) -> bool:
        """Read the available input; return False at its end.

        Raises:
            PeerError, LimitError: the input is not the master's.
        """
        data = os.read(self.handle, 1 << 20)
        self._messages.extend(self._framer.feed(data))
        return bool(data)

    def next(self) -> Tuple[Dict[str, Any], bytes]:
        """Return the next message.

        Raises:
            ChannelEndedError: there is none any more.
        """
        while not self._messages:
            if not self.hear():
                raise ChannelEndedError()
        return self._messages.popleft()

    def wait(self, seconds: float) -> bool:
        """Wait up to *seconds* for a message; return whether there is one.

        Raises:
            ChannelEndedError: the channel has ended.
        """
        if not self._messages and select.select([self.handle], (), (), seconds)[0]:
            if not self.hear():
                raise ChannelEndedError()
        return bool(self._messages)


class Server:
    """Answers questions.

    Args:
        room: the folder.
        source: where they come from.
    """

    def __init__(self, room: Room, source: Input) -> None:
        self._room = room
        self._input = source
        self._caller = CallProcess(room, source.handle, source.hear)
        self._incoming = Incoming(room)
        self._readers: Dict[str, StepReader] = {}
        self._handlers: Mapping[Type[Any], Callable[[Any, bytes], Answer]] = {
            p.HostHello: self._hello,
            p.Open: self._open,
            p.Pillar: self._call,
            p.Call: self._call,
            p.Known: self._call,
            p.Has: self._has,
            p.Put: self._put,
            p.Start: self._start,
            p.Poll: self._poll,
            p.Supply: self._supply,
            p.Collect: self._collect,
            p.Cancel: self._cancel,
            p.Ack: self._ack,
            p.Clean: self._clean,
            p.Wipe: self._wipe,
        }

    def answer(self, message: Mapping[str, Any], blob: bytes) -> Tuple[Dict[str, Any], bytes]:
        """Return the message that answers one of the master's.

        Raises:
            ChannelEndedError: the channel ended meanwhile.
        """
        try:
            question = p.asked(message)
            record, beside = self._handlers[type(question)](question, blob)
            return p.answer(record), beside
        except ChannelEndedError:
            raise
        except (CatenaError, OSError) as error:
            return p.failure(trouble_of(error)), b""
        except Exception as error:  # noqa: BLE001  # a fault of ours is told, not died of
            return p.failure(trouble_of(error)), b""

    def close(self) -> None:
        """End child processes, and clean up once a day; detached runs continue."""
        self._caller.close()
        self._incoming.close()
        stamp = self._room.path / ".cleaned"
        with contextlib.suppress(OSError):
            if not stamp.exists() or time.time() - stamp.stat().st_mtime > DAY_SECONDS:
                stamp.touch(mode=0o600)
                self._clean(p.Clean(), b"")

    def sweep(self) -> None:
        """Remove the temporary files of killed processes."""
        runs.sweep(self._room.runs)
        self._incoming.sweep()

    def _hello(self, question: p.HostHello, blob: bytes) -> Answer:
        version = ".".join(str(part) for part in sys.version_info[:3])
        briefs = tuple(self._brief(run) for run in runs.every(self._room.runs))
        return p.HostWelcome(
            catena.__version__,
            version,
            os.getpid(),
            os.geteuid(),
            _user(),
            str(self._room.path),
            boot_id(),
            machine_id(),
            self._room.free(),
            briefs,
        ), b""

    def _brief(self, run: RunFolder) -> p.RunBrief:
        jid = fun = ""
        with contextlib.suppress(CatenaError):
            spec = run.read_job().spec
            jid, fun = spec.jid, spec.fun
        phase = RunPhase.running
        # An obstacle to a run's end is reported to the caller who asks for that run, not to all.
        with contextlib.suppress(CatenaError, OSError):
            phase = runner.look(self._room, run, asked_for=False)
        return p.RunBrief(run.run_id, jid, fun, phase, (run.path / "job").stat().st_mtime)

    def _open(self, question: p.Open, blob: bytes) -> Answer:
        if question.identity.settings.get("testing") is True:
            failpoints.arm(True)
        return self._caller.answer(question), b""

    def _call(self, question: Any, blob: bytes) -> Answer:
        return self._caller.answer(question), b""

    def _has(self, question: p.Has, blob: bytes) -> Answer:
        found = [s for s in question.sha256 if self._room.parts.find(p.sha256(s)) is None]
        return p.Missing(tuple(found)), b""

    def _put(self, question: p.Put, blob: bytes) -> Answer:
        size = sum(one.length for one in question.slices)
        if size > p.PUT_LIMIT:
            raise ProgramError(Trouble.refused, f"{size} bytes in one put, limit {p.PUT_LIMIT}")
        self._incoming.put(question.slices, _unpacked(blob, size) if question.packed else blob)
        return p.Nothing(), b""

    def _start(self, question: p.Start, blob: bytes) -> Answer:
        run = RunFolder(self._room.runs / p.run_id(question.run_id))
        if not run.exists():
            run = self._create(run.run_id, p.sha256(question.job))
        return self._polled(run, 0), b""

    def _create(self, run_id: str, sha256: str) -> RunFolder:
        part = self._room.parts.find(sha256)
        if part is None:
            raise ProgramError(Trouble.parts, "the job itself is missing", (sha256,))
        job = p.unpack_job(read_limited(part, p.JOB_LIMIT))
        if job.identity.settings.get("testing") is True:
            failpoints.arm(True)
        self._room.place(job.identity)  # refused here, not by a runner that nobody hears
        missing = ShippedFiles(job.files, self._room.parts).missing()
        texts = (s for s in job.rendered.values() if self._room.parts.find(p.sha256(s)) is None)
        missing.extend(sorted(set(texts)))
        if missing:
            raise ProgramError(Trouble.parts, f"{len(missing)} parts are missing", tuple(missing))
        run = runs.create(self._room.runs, run_id, part)
        self._room.parts.drop(sha256)
        return run

    def _poll(self, question: p.Poll, blob: bytes) -> Answer:
        run = self._run(question.run_id)
        ends = time.monotonic() + min(max(question.wait_seconds, 0.0), p.POLL_SECONDS)
        while True:
            polled = self._polled(run, question.after)
            over = polled.steps or polled.phase is RunPhase.done or time.monotonic() >= ends
            if over or self._input.wait(LOOK_SECONDS):
                return polled, b""

    def _polled(self, run: RunFolder, after: int) -> p.Polled:
        # Look first: a finished run writes no more steps.
        phase = runner.look(self._room, run)
        reader = self._readers.setdefault(run.run_id, StepReader(run.steps))
        steps = reader.after(after, p.STEPS_LIMIT)
        more = len(steps) == p.STEPS_LIMIT
        shown = tuple(_marked(run, step) for step in steps)
        return p.Polled(phase, shown, more, boot_id())

    def _supply(self, question: p.Supply, blob: bytes) -> Answer:
        if question.number < 1:
            raise ProgramError(Trouble.refused, "questions are counted from 1")
        self._run(question.run_id).supply(question.number, blob)
        return p.Nothing(), b""

    def _collect(self, question: p.Collect, blob: bytes) -> Answer:
        run = self._run(question.run_id)
        if runner.look(self._room, run) is not RunPhase.done:
            raise ProgramError(Trouble.busy, f"run {run.run_id} still goes on")
        data = read_limited(run.result, p.JOB_LIMIT)
        start = max(question.offset, 0)
        piece = data[start : start + p.COLLECT_LIMIT]
        return p.Collected(len(data), hashlib.sha256(data).hexdigest()), piece

    def _cancel(self, question: p.Cancel, blob: bytes) -> Answer:
        run = self._run(question.run_id)
        if not run.is_done():
            run.cancel(question.reason)
        ends = time.monotonic() + CANCEL_SECONDS
        while runner.look(self._room, run) is not RunPhase.done and time.monotonic() < ends:
            if self._input.wait(LOOK_SECONDS):
                break
        return self._polled(run, 0), b""

    def _ack(self, question: p.Ack, blob: bytes) -> Answer:
        run = RunFolder(self._room.runs / p.run_id(question.run_id))
        if run.exists():
            if runner.look(self._room, run) is not RunPhase.done:
                raise ProgramError(Trouble.busy, f"run {run.run_id} still goes on")
            # The runner's next task (a reboot) is in the files that are removed here.
            ends = time.monotonic() + READ_SECONDS
            while not runner.is_read(run):
                if time.monotonic() > ends:
                    raise ProgramError(Trouble.busy, f"run {run.run_id} has not ended yet")
                time.sleep(LOOK_SECONDS)
            failpoints.hit("ssh.ack.before")
            run.remove()
        self._readers.pop(run.run_id, None)
        return p.Nothing(), b""

    def _clean(self, question: p.Clean, blob: bytes) -> Answer:
        removed = 0
        for run in runs.every(self._room.runs):
            if run.age() >= question.run_seconds:
                phase = runner.look(self._room, run, asked_for=False)
                never = not run.is_claimed() and run.age() > NEVER_SECONDS
                if phase is RunPhase.done or never:
                    run.remove()
                    removed += 1
        self.sweep()
        # A run that goes on uses its parts and its bundle; both were used when it began.
        seconds = max(question.part_seconds, DAY_SECONDS)
        parts = self._room.parts.prune(seconds)
        return p.Cleaned(removed, parts, _prune(self._room.bundles, seconds)), b""

    def _wipe(self, question: p.Wipe, blob: bytes) -> Answer:
        for run in runs.every(self._room.runs):
            if runner.look(self._room, run, asked_for=False) is not RunPhase.done:
                raise ProgramError(Trouble.busy, f"run {run.run_id} still goes on")
        # Also the one that is renamed while its chunk runs.
        for path in self._room.path.glob(f"hosts/*/conf/minion.d/{CHAIN_FILE}*"):
            raise ProgramError(Trouble.busy, f"an action chain goes on here ({path})")
        self._caller.close()
        self._room.wipe()
        return p.Nothing(), b""

    def _run(self, run_id: str) -> RunFolder:
        run = RunFolder(self._room.runs / p.run_id(run_id))
        if not run.exists():
            raise ProgramError(Trouble.unknown_run, f"there is no run {run_id} on this host")
        return run


def _marked(run: RunFolder, step: p.RunStep) -> p.RunStep:
    """Return a step; a question of which the answer is here says so to who comes anew."""
    number = step.data.get("number")
    if step.kind != "ask" or type(number) is not int or not run.is_supplied(number):
        return step
    return replace(step, data={**step.data, "answered": True})


def _unpacked(blob: bytes, size: int) -> bytes:
    unzip = zlib.decompressobj()
    try:
        data = unzip.decompress(blob, size + 1)
    except zlib.error as error:
        raise ProgramError(Trouble.content, f"the bytes can't be unpacked: {error}") from None
    return data


def _prune(bundles: Path, seconds: float) -> int:
    """Remove bundles that were not used for so long; the running one was used just now."""
    removed = 0
    for path in bundles.iterdir() if bundles.is_dir() else ():
        if time.time() - path.stat().st_mtime > seconds:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _encoded(framer: Framer, message: Dict[str, Any], beside: bytes) -> bytes:
    try:
        return framer.encode(message, beside)
    except LimitError as error:
        return framer.encode(p.failure(trouble_of(error)))


def _leave_session() -> None:
    """Take sshd's words out of the environment: what runs here is no session of a person.

    By them bash takes itself for a login's first shell and reads .bashrc, whose noise would be in
    the output of every command; and a run outlives its connection.
    """
    for name in [name for name in os.environ if name.startswith("SSH_")]:
        del os.environ[name]


def main(folder: str, nonce: str, source: int, target: int, fresh: str = "") -> NoReturn:
    """Serve one channel to its end.

    Args:
        folder: the room.
        nonce: of this run.
        source: descriptor of the channel's input.
        target: descriptor of its output; nobody else writes there.
        fresh: the bundle, where it is worth to be compiled at the end; "": it is not.
    """
    collect_rarely()
    gc.enable()
    _leave_session()
    try:
        room = Room(Path(folder))
    except ProgramError as error:
        sys.stderr.write(f"catena: {error}\n")
        sys.exit(1)
    framer = Framer(nonce, master=False)
    heard = Input(source, framer)
    server = Server(room, heard)
    code = 0
    try:
        server.sweep()
        write_all(target, marker(READY, nonce))
        while True:
            message, beside = server.answer(*heard.next())
            write_all(target, _encoded(framer, message, beside))
    except (ChannelEndedError, BrokenPipeError):
        pass
    except CatenaError as error:
        sys.stderr.write(f"catena: the master's words can't be read: {error}\n")
        code = 1
    finally:
        server.close()
    if fresh:
        from catena.runtime.push.compiled import compile_bundle

        with contextlib.suppress(OSError):
            compile_bundle(Path(fresh))
    sys.stderr.flush()
    # Nothing is left to put in order: to take the interpreter apart is a tenth of a short visit.
    os._exit(code)
